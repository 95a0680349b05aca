"""Flights: one upstream call that several exchanges wait for, its leader's (docs/policies/coalesce.md).

A flight is open from its leader's request to the end of the answer. Whoever waits for the whole answer gets
it when it lands; whoever follows the stream reads what has come so far and then each part as it comes. When
the leader leaves, the flight goes on by a call of its own as long as anybody waits (`continuation`).

Invariants: a waiter is woken exactly once; a follower gets each part once, and an end only if the provider
said so; nothing is left of a flight that nobody waits for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from ext_proc.exchange import Exchange
from ext_proc.openai.chunks import replay
from ext_proc.openai.paths import Operation
from ext_proc.openai.recording import StreamRecorder

BOARDING_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Landed:
    """The whole answer of a flight, as JSON, and the Backend that gave it."""

    body: bytes
    content_type: str
    backend: str = ""


class StreamCut(Exception):
    """The stream ended before the provider said so."""


class LiveStream:
    """What has come of a flight's stream, for any number of followers."""

    def __init__(self, operation: Operation, *, carries_usage: bool) -> None:
        """`carries_usage` says that the provider was asked for the usage, by us or by the leader."""
        self._operation = operation
        self._carries_usage = carries_usage
        self._parts: list[bytes] = []
        # The same without the usage, made once somebody wants it so.
        self._plain: list[bytes] = []
        self._filter: StreamRecorder | None = None
        self._flushed = False
        self._changed = asyncio.Event()
        self.ended = False
        self.cut = False

    def append(self, part: bytes) -> None:
        """Add what came."""
        if part:
            self._parts.append(part)
            self._wake()

    def end(self, *, whole: bool) -> None:
        """Say that nothing more comes; `whole`: the provider said so."""
        if not self.ended:
            self.ended, self.cut = True, not whole
            self._wake()

    @property
    def begun(self) -> bool:
        """Whether anything has come."""
        return bool(self._parts)

    async def follow(self, *, usage: bool) -> AsyncIterator[bytes]:
        """Yield every part from the first one on.

        Raises:
            StreamCut: it broke off.
        """
        position = 0
        while True:
            parts = self._parts if usage or not self._carries_usage else self._without_usage()
            if position < len(parts):
                yield b"".join(parts[position:])
                position = len(parts)
            elif self.ended:
                if self.cut:
                    raise StreamCut
                return
            else:
                await self._changed.wait()

    def so_far(self) -> bytes:
        """Return all that has come."""
        return b"".join(self._parts)

    def _without_usage(self) -> list[bytes]:
        if self._filter is None:
            self._filter = StreamRecorder(self._operation, hides_usage=True, max_bytes=2**62)
        for part in self._parts[len(self._plain) :]:
            visible = self._filter.feed(part, end=False)
            self._plain.append(part if visible is None else visible)
        if self.ended and not self.cut and not self._flushed:
            self._flushed = True
            self._plain.append(self._filter.feed(b"", end=True) or b"")
            self._parts.append(b"")
        return self._plain

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


@dataclass(slots=True, eq=False)
class Flight:
    """One upstream call and who waits for it."""

    key: bytes
    number: int
    leader: Exchange
    live: LiveStream | None
    waiters: set[asyncio.Future[Landed | None]] = field(default_factory=set)
    followers: int = 0
    # Followers that are counted already and on their way through Envoy.
    boarding: deque[asyncio.TimerHandle] = field(default_factory=deque)
    done: bool = False
    # The call that took over when the leader left.
    continuation: asyncio.Task[None] | None = None

    @property
    def waited_for(self) -> bool:
        """Whether anybody but the leader wants the answer."""
        return bool(self.waiters) or self.followers > 0

    def __len__(self) -> int:
        return len(self.waiters) + self.followers


class Flights:
    """The open flights of one processor, by the question that they ask."""

    def __init__(self) -> None:
        self._open: dict[bytes, Flight] = {}
        self._by_number: dict[int, Flight] = {}
        self._numbers = count(1)

    def __len__(self) -> int:
        return len(self._open)

    def find(self, key: bytes) -> Flight | None:
        """Return the open flight that asks `key`."""
        return self._open.get(key)

    def numbered(self, number: int) -> Flight | None:
        """Return the flight of that number, also when it has just landed; None when nobody is left of it."""
        return self._by_number.get(number)

    def open(self, key: bytes, leader: Exchange, live: LiveStream | None) -> Flight:
        """Open a flight for `leader`."""
        flight = Flight(key, next(self._numbers), leader, live)
        self._open[key] = self._by_number[flight.number] = flight
        return flight

    def land(self, flight: Flight, landed: Landed) -> None:
        """Give everybody the answer."""
        if flight.live is not None:
            if not flight.live.begun:
                # A provider that was asked for a stream may answer in one piece.
                operation = flight.leader.parsed.operation
                flight.live.append(b"".join(replay(operation, landed.body, include_usage=True)))
            flight.live.end(whole=True)
        self._close(flight, landed)

    def release(self, flight: Flight) -> None:
        """Send everybody on alone: there will be no answer to share."""
        self._close(flight, None)
        if flight.live is not None:
            flight.live.end(whole=False)

    async def wait(self, flight: Flight) -> Landed | None:
        """Wait for the answer; None sends the exchange on alone."""
        waiter: asyncio.Future[Landed | None] = asyncio.get_running_loop().create_future()
        flight.waiters.add(waiter)
        try:
            return await waiter
        finally:
            flight.waiters.discard(waiter)
            self.left(flight)

    def expect(self, flight: Flight) -> None:
        """Count a follower of the stream in who is on the way; one that does not `board` in time is gone."""
        flight.followers += 1
        loop = asyncio.get_running_loop()
        flight.boarding.append(loop.call_later(BOARDING_S, self._late, flight))

    def board(self, flight: Flight) -> None:
        """Let a follower take its place; `disembark` must be told when it has gone."""
        if flight.boarding:
            flight.boarding.popleft().cancel()
        else:
            flight.followers += 1

    def _late(self, flight: Flight) -> None:
        flight.boarding.popleft()
        self.disembark(flight)

    def disembark(self, flight: Flight) -> None:
        """Count a follower out."""
        flight.followers -= 1
        self.left(flight)

    def left(self, flight: Flight) -> None:
        """Take notice that somebody no longer waits: the last one ends what was only for the others."""
        if flight.waited_for:
            return
        if flight.continuation is not None:
            flight.continuation.cancel()
        if flight.done:
            self._by_number.pop(flight.number, None)

    def _close(self, flight: Flight, landed: Landed | None) -> None:
        if flight.done:
            return
        flight.done = True
        if self._open.get(flight.key) is flight:
            del self._open[flight.key]
        for waiter in list(flight.waiters):
            if not waiter.done():
                waiter.set_result(landed)
        if not flight.waited_for:
            self._by_number.pop(flight.number, None)
