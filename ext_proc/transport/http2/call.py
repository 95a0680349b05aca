"""One gRPC call on a connection: messages out of DATA frames, and what is still to be sent.

Knows no socket: the connection feeds it and takes what it wants to send.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from ext_proc.transport.http2 import frames
from ext_proc.transport.stream import Abort, Status


class Carrier(Protocol):
    """What a call needs of its connection."""

    def send(self, call: Call, message: bytes) -> None:
        """Send one message, as far as the peer takes it."""
        ...

    async def drained(self, call: Call) -> None:
        """Wait until what was sent has been taken; at once in most cases."""
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
        "ended",
        "finish",
        "id",
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
        self.received = 0
        # Sending: how much the peer takes, what waits for it, the frame that ends the call.
        self.window = window
        self.pending: deque[bytes] = deque()
        self.opened = False
        self.finish = b""
        self.task: asyncio.Task[None] | None = None

    async def read(self) -> bytes | None:
        """Return the next message; None once the peer has sent its last."""
        while not self._inbox:
            if self.ended:
                return None
            self._waiter = self._loop.create_future()
            await self._waiter
        return self._inbox.popleft()

    async def write(self, message: bytes) -> None:
        """Send `message`; waits while the peer does not take what was sent before."""
        self._carrier.send(self, message)
        if self.pending:
            await self._carrier.drained(self)

    def feed(self, payload: bytes) -> None:
        """Take the payload of one DATA frame.

        Raises:
            Abort: a message is compressed or longer than allowed.
        """
        if self._parts:
            self._parts.append(payload)
            self._have += len(payload)
            if self._have < (self._need if self._need >= 0 else frames.MESSAGE_PREFIX_BYTES):
                return
            payload = b"".join(self._parts)
            self._parts.clear()
        if self._need >= 0:
            payload = self._take(payload)
        while len(payload) >= frames.MESSAGE_PREFIX_BYTES:
            if payload[0]:
                raise Abort(Status.UNIMPLEMENTED, "compressed messages are not understood")
            self._need = int.from_bytes(payload[1:5], "big")
            if self._need > self._max_message_bytes:
                raise Abort(
                    Status.RESOURCE_EXHAUSTED,
                    f"a message of {self._need} bytes is longer than {self._max_message_bytes}",
                )
            payload = self._take(payload[5:])
            if self._need >= 0:
                return
        if payload:
            self._keep(payload)

    def _take(self, payload: bytes) -> bytes:
        """Deliver the message that `payload` begins with, if it is whole; return what follows it."""
        need = self._need
        if len(payload) == need:
            message, payload = payload, b""
        elif len(payload) > need:
            message, payload = payload[:need], payload[need:]
        else:
            self._keep(payload)
            return b""
        self._need = -1
        self._inbox.append(message)
        self.wake()
        return payload

    def _keep(self, payload: bytes) -> None:
        self._parts.append(payload)
        self._have = len(payload)

    def end(self) -> None:
        """Take notice that the peer has sent its last."""
        self.ended = True
        self.wake()

    def wake(self) -> None:
        """Wake the reader, if there is one."""
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)
