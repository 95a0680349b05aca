"""What has come of one flight's stream, for any number of followers (docs/policies/coalesce.md).

Whoever begins to follow reads what was said so far, then each part as it comes. Knows neither who leads nor
how a follower is reached.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from ext_proc.openai.paths import Operation
from ext_proc.openai.recording import StreamRecorder, WholeEvents

# What is held of one stream. Beyond that its beginning is forgotten and nobody can follow it any more.
HELD_AT_MOST_BYTES: Final = 16 * 1024 * 1024
# A follower that comes late reads what was said before in pieces of about this size.
PIECE_BYTES: Final = 64 * 1024
# How many followers are woken in one turn of the event loop: all of thousands would keep it from Envoy's
# health checks for so long that it takes the processor for dead. A turn then takes some milliseconds.
WOKEN_AT_ONCE: Final = 64


class StreamCut(Exception):
    """The stream ended before the provider said so."""


class _Track:
    """Parts in their order; the oldest are forgotten when they are more than `max_bytes`."""

    __slots__ = ("_bytes", "_max_bytes", "_parts", "forgotten")

    def __init__(self, max_bytes: int) -> None:
        self._parts: list[bytes] = []
        self._bytes = 0
        self._max_bytes = max_bytes
        self.forgotten = 0

    def add(self, part: bytes) -> None:
        if not part:
            return
        self._parts.append(part)
        self._bytes += len(part)
        while self._bytes > self._max_bytes:
            self._bytes -= len(self._parts.pop(0))
            self.forgotten += 1

    def piece(self, position: int) -> tuple[bytes, int]:
        """Return about PIECE_BYTES from `position` on, b"" when there is nothing yet, and where they end.

        Raises:
            StreamCut: that has been forgotten.
        """
        first = position - self.forgotten
        if first < 0:
            raise StreamCut
        last, size = first, 0
        while last < len(self._parts) and size < PIECE_BYTES:
            size += len(self._parts[last])
            last += 1
        return b"".join(self._parts[first:last]), self.forgotten + last

    def whole(self) -> bytes:
        """Return everything. Raises StreamCut when the beginning has been forgotten."""
        if self.forgotten:
            raise StreamCut
        return b"".join(self._parts)


class LiveStream:
    """What has come of a flight's stream, for any number of followers, in whole events.

    `max_bytes` bounds what is held. A follower that lags by more is cut.
    """

    def __init__(self, operation: Operation, max_bytes: int = HELD_AT_MOST_BYTES) -> None:
        self._operation = operation
        self._max_bytes = max_bytes
        self._events = WholeEvents()
        self._told = _Track(max_bytes)
        # The same without the usage, kept from when somebody wants it so.
        self._plain: _Track | None = None
        self._filter: StreamRecorder | None = None
        # Who has heard everything, in their order; then those of them who are to hear more.
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._woken: deque[asyncio.Future[None]] = deque()
        self.begun = False
        self.ended = False
        self.cut = False

    @property
    def intact(self) -> bool:
        """Whether it can still be followed from its first event on."""
        return not self._told.forgotten

    def append(self, part: bytes) -> None:
        """Add what came; after the end nothing does."""
        if part and not self.ended:
            self._add(self._events.feed(part))

    def broken_off(self) -> None:
        """Forget the event that has begun: another stream goes on from the one before it."""
        self._events.rest()

    def end(self, *, whole: bool) -> None:
        """Say that nothing more comes; `whole`: the provider said so."""
        if self.ended:
            return
        if whole:
            self._add(self._events.rest())
            if self._plain is not None and self._filter is not None:
                self._plain.add(self._filter.feed(b"", end=True) or b"")
        self.ended, self.cut = True, not whole
        self._wake()

    async def follow(self, *, usage: bool) -> AsyncIterator[bytes]:
        """Yield everything from the first event on.

        Raises:
            StreamCut: it broke off, or this follower is too far behind.
        """
        track, position = self._told if usage else self._without_usage(), 0
        while True:
            piece, position = track.piece(position)
            if piece:
                yield piece
            elif not self.ended:
                await self._more()
            elif self.cut:
                raise StreamCut
            else:
                return

    def so_far(self) -> bytes:
        """Return all events that have come. Raises StreamCut when the first ones are forgotten."""
        return self._told.whole()

    def _without_usage(self) -> _Track:
        if self._plain is None:
            self._filter = StreamRecorder(self._operation, hides_usage=True, max_bytes=self._max_bytes)
            self._plain = _Track(self._max_bytes)
            self._show(self._told.whole(), end=self.ended and not self.cut)
        return self._plain

    def _add(self, events: bytes) -> None:
        if events:
            self.begun = True
            self._told.add(events)
            self._show(events)
            self._wake()

    def _show(self, events: bytes, *, end: bool = False) -> None:
        if self._plain is not None and self._filter is not None:
            visible = self._filter.feed(events, end=end)
            self._plain.add(events if visible is None else visible)

    async def _more(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = None
        try:
            await waiter
        finally:
            self._waiting.pop(waiter, None)

    def _wake(self) -> None:
        at_work = bool(self._woken)
        self._woken.extend(self._waiting)
        self._waiting.clear()
        if self._woken and not at_work:
            # Not at once: the leader's own part goes out first.
            asyncio.get_running_loop().call_soon(self._wake_some)

    def _wake_some(self) -> None:
        for _ in range(min(len(self._woken), WOKEN_AT_ONCE)):
            waiter = self._woken.popleft()
            if not waiter.done():
                waiter.set_result(None)
        if self._woken:
            asyncio.get_running_loop().call_soon(self._wake_some)
