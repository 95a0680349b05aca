"""One gRPC call on a connection: messages out of DATA frames, and what is still to be sent.

Knows no socket: the connection feeds it and takes what it wants to send.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

from ext_proc.transport.http2 import frames
from ext_proc.transport.stream import Abort, Status

# A whole message fits into a call's window, so that no message waits for our permission.
WINDOW: Final = 64 * 1024 * 1024
HALF_WINDOW: Final = WINDOW // 2


class Carrier(Protocol):
    """What a call needs of its connection."""

    def send(self, call: Call, message: bytes) -> None:
        """Send one message, as far as the peer takes it. Raises Abort when the peer has left the call."""
        ...

    async def drained(self, call: Call) -> None:
        """Wait until what was sent has been taken; at once in most cases."""
        ...

    def replenish(self, call: Call) -> None:
        """Let the peer send as much again as it has sent."""
        ...


class Call:
    """A `Stream` (ext_proc.transport.stream) over HTTP/2. `max_message_bytes` bounds what the peer sends."""

    __slots__ = (
        "_carrier",
        "_have",
        "_inbox",
        "_loop",
        "_max_message_bytes",
        "_need",
        "_parts",
        "_waiter",
        "drain",
        "ended",
        "finish",
        "id",
        "open",
        "opened",
        "pending",
        "received",
        "task",
        "window",
    )

    def __init__(
        self,
        stream_id: int,
        carrier: Carrier,
        loop: asyncio.AbstractEventLoop,
        window: int,
        max_message_bytes: int,
    ) -> None:
        self.id = stream_id
        self._carrier = carrier
        self._loop = loop
        self._max_message_bytes = max_message_bytes
        # Receiving: whole messages, the parts of the one that is coming, whether it was the last.
        self._inbox: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._parts: list[bytes] = []
        self._have = 0
        self._need = -1  # -1: the length is not known yet
        self.ended = False
        self.received = 0  # since the peer was last given room
        # Sending: how much the peer takes, what waits for it and who waits, the frame that ends the call.
        self.window = window
        self.pending: deque[memoryview] = deque()
        self.drain: asyncio.Future[None] | None = None
        self.opened = False
        self.finish = b""
        # Whether the connection still has this call, and who serves it.
        self.open = True
        self.task: asyncio.Task[None] | None = None

    async def read(self) -> bytes | None:
        """Return the next message; None once the peer has sent its last.

        Raises:
            Abort: the peer ended in the middle of a message.
        """
        inbox = self._inbox
        while not inbox:
            if self.ended:
                if self.open and (self._parts or self._need >= 0):
                    raise Abort(Status.INTERNAL, "the last message is not whole")
                return None
            self._waiter = self._loop.create_future()
            await self._waiter
        message = inbox.popleft()
        if self.received >= HALF_WINDOW and not inbox:
            self._carrier.replenish(self)
        return message

    async def write(self, message: bytes) -> None:
        """Send `message`; waits while the peer does not take what was sent before.

        Raises:
            Abort: the peer has left the call, and the service went on although it was cancelled.
        """
        self._carrier.send(self, message)
        if self.pending:
            await self._carrier.drained(self)

    def feed(self, payload: bytes) -> None:
        """Take the payload of one DATA frame.

        Raises:
            Abort: a message is compressed or longer than allowed.
        """
        need = self._need
        if self._parts:
            self._parts.append(payload)
            self._have += len(payload)
            if self._have < (need if need >= 0 else frames.MESSAGE_PREFIX_BYTES):
                return
            payload = b"".join(self._parts)
            self._parts.clear()
        position, size = 0, len(payload)
        while True:
            if need < 0:
                start = position + frames.MESSAGE_PREFIX_BYTES
                if start > size:
                    break
                need = self._length(payload, position)
                position = start
            end = position + need
            if end > size:
                break
            self._inbox.append(payload[position:end])
            position, need = end, -1
        self._need = need
        if position < size:
            self._parts.append(payload[position:])
            self._have = size - position
        if self._waiter is not None and self._inbox:
            self.wake()

    def _length(self, payload: bytes, position: int) -> int:
        """Read the prefix of a message."""
        if payload[position]:
            raise Abort(Status.UNIMPLEMENTED, "compressed messages are not understood")
        length = int.from_bytes(payload[position + 1 : position + frames.MESSAGE_PREFIX_BYTES], "big")
        if length > self._max_message_bytes:
            text = f"a message of {length} bytes is longer than {self._max_message_bytes}"
            raise Abort(Status.RESOURCE_EXHAUSTED, text)
        return length

    @property
    def caught_up(self) -> bool:
        """Whether the service has taken every whole message."""
        return not self._inbox

    def end(self) -> None:
        """Take notice that the peer has sent its last."""
        self.ended = True
        self.wake()

    def leave(self) -> None:
        """Take notice that the connection has this call no more: nothing comes, nothing goes."""
        self.open = False
        self.ended = True
        if self.pending:
            self.pending.clear()
        if self._waiter is not None:
            self.wake()
        if self.drain is not None:
            self.wake_writer()

    def wake(self) -> None:
        """Wake the reader, if there is one."""
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def wake_writer(self) -> None:
        """Wake the writer, if there is one."""
        drain = self.drain
        if drain is not None:
            self.drain = None
            if not drain.done():
                drain.set_result(None)
