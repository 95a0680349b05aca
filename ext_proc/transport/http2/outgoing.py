"""What one connection sends: gathered within a turn of the loop, messages as far as the peer takes them.

Flow control is the peer's (RFC 9113 §5.2): a window for each call and one for all. Calls that wait for the
window of all, or for a peer that reads slowly, take turns frame by frame.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.call import Call
from ext_proc.transport.http2.frames import ProtocolError
from ext_proc.transport.stream import Abort, Status

# One turn may decide many calls, and the peer would stand still until the last of them. Two are enough for it
# to go on with; a write for each costs more and gains nothing.
MOST_UNFLUSHED_MESSAGES: Final = 2
# Sent in mid-turn, so that the transport can say that the peer reads slowly.
MOST_UNFLUSHED_BYTES: Final = 256 * 1024
# Answers to pings and the like that a peer may leave unread.
MOST_UNREAD_BYTES: Final = 16 * 1024 * 1024


class Outgoing:
    """The `Carrier` of a connection's calls. `on_end` hears of calls whose last frame went out late."""

    __slots__ = (
        "_call_window",
        "_loop",
        "_max_frame",
        "_on_end",
        "_out",
        "_paused",
        "_ready",
        "_unflushed",
        "_unflushed_messages",
        "_unread",
        "transport",
        "window",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, on_end: Callable[[Call], None]) -> None:
        self._loop = loop
        self._on_end = on_end
        self.transport: asyncio.Transport | None = None
        self.window = frames.DEFAULT_WINDOW
        self._call_window = frames.DEFAULT_WINDOW
        self._max_frame = frames.DEFAULT_MAX_FRAME
        self._out: list[bytes | memoryview] = []
        self._unflushed = 0
        self._unflushed_messages = 0
        # Calls with something to send and room in their own window, the next one first.
        self._ready: OrderedDict[int, Call] = OrderedDict()
        self._paused = False
        self._unread = 0

    @property
    def call_window(self) -> int:
        """What the peer takes of a new call, in bytes."""
        return self._call_window

    # --- frames

    def put(self, data: bytes) -> None:
        """Send frames at the end of this turn, or with messages that go before."""
        if not self._out:
            self._loop.call_soon(self.flush)
        self._out.append(data)

    def flush(self) -> None:
        """Send what was gathered."""
        out = self._out
        if not out:
            return
        self._out = []
        self._unflushed = self._unflushed_messages = 0
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        data = b"".join(out)
        if self._paused:
            self._unread += len(data)
            if self._unread > MOST_UNREAD_BYTES:
                transport.abort()
                return
        transport.write(data)

    def pause(self) -> None:
        """Let no message go: the peer reads slowly."""
        self._paused = True
        self._unread = 0

    def resume(self) -> None:
        """Let messages go again."""
        self._paused = False
        self.pump()

    # --- messages

    def send(self, call: Call, message: bytes) -> None:
        """Send one message, as far as the peer takes it. Raises Abort when the peer has left the call."""
        if not call.open:
            raise Abort(Status.UNAVAILABLE, "the peer has left this call")
        if not call.opened:
            call.opened = True
            self.put(frames.head(call.id))
        size = len(message) + frames.MESSAGE_PREFIX_BYTES
        if (
            size <= call.window
            and size <= self.window
            and size <= self._max_frame
            and not call.pending
            and not self._paused
        ):
            call.window -= size
            self.window -= size
            self.put(frames.message_frame(call.id, message))
            self._unflushed += size
            self._unflushed_messages += 1
            if self._unflushed_messages >= MOST_UNFLUSHED_MESSAGES or self._unflushed > MOST_UNFLUSHED_BYTES:
                self.flush()
            return
        call.pending.append(memoryview(frames.message_prefix(message) + message))
        self._queue(call)
        self.pump()

    async def drained(self, call: Call) -> None:
        """Wait until what was sent has been taken."""
        while call.pending:
            call.drain = self._loop.create_future()
            await call.drain

    def replenish(self, call: Call) -> None:
        """Let the peer send as much again as it has sent."""
        if not call.ended:
            self.put(frames.window_update(call.id, call.received))
            call.received = 0

    def finish(self, call: Call, end: bytes) -> bool:
        """Send a call's last frames after all that waits; return whether that is done."""
        if call.pending:
            call.finish = end
            return False
        self.put(end)
        return True

    def drop(self, call: Call) -> None:
        """Send nothing more of what waits."""
        call.pending.clear()
        self._ready.pop(call.id, None)

    def _queue(self, call: Call) -> None:
        if call.window > 0:
            self._ready[call.id] = call

    def pump(self) -> None:
        """Send what waits, as far as the windows go and the peer reads."""
        ready = self._ready
        while ready and self.window > 0 and not self._paused:
            _, call = ready.popitem(last=False)
            if call.window > 0:
                self._piece(call)

    def _piece(self, call: Call) -> None:
        """Send one frame of what a call has waiting."""
        pending = call.pending
        piece = pending[0]
        size = min(len(piece), call.window, self.window, self._max_frame)
        if size < len(piece):
            pending[0] = piece[size:]
            piece = piece[:size]
        else:
            pending.popleft()
        call.window -= size
        self.window -= size
        self.put(frames.frame_header(frames.DATA, 0, call.id, size))
        self._out.append(piece)
        if pending:
            self._queue(call)
        else:
            call.wake_writer()
            if call.finish:
                self.put(call.finish)
                self._on_end(call)
        self._unflushed += size
        if self._unflushed > MOST_UNFLUSHED_BYTES:
            self.flush()

    # --- windows

    def widen(self, increment: int) -> None:
        """Take more of all calls together.

        Raises:
            ProtocolError: the window is larger than a window can be.
        """
        self.window += increment
        if self.window > frames.LARGEST_WINDOW:
            raise ProtocolError(frames.FLOW_CONTROL_ERROR, "the connection's window is out of range")
        if self._ready:
            self.pump()

    def widen_call(self, call: Call, increment: int) -> bool:
        """Take more of one call; return whether its window is one that can be."""
        call.window += increment
        if call.window > frames.LARGEST_WINDOW:
            return False
        if call.pending:
            self._queue(call)
            self.pump()
        return True

    def resize(self, calls: Iterable[Call], call_window: int) -> None:
        """Take another amount of each call from its beginning; what was taken counts, below zero too.

        Raises:
            ProtocolError: a window is larger than a window can be.
        """
        if call_window > frames.LARGEST_WINDOW:
            raise ProtocolError(frames.FLOW_CONTROL_ERROR, "the initial window is out of range")
        more = call_window - self._call_window
        self._call_window = call_window
        for call in calls:
            call.window += more
            if call.window > frames.LARGEST_WINDOW:
                raise ProtocolError(frames.FLOW_CONTROL_ERROR, "a call's window is out of range")
            if call.pending:
                self._queue(call)

    def limit_frames(self, max_frame: int) -> None:
        """Send no longer frames from now on.

        Raises:
            ProtocolError: no peer may ask for that.
        """
        if not frames.DEFAULT_MAX_FRAME <= max_frame <= frames.LARGEST_FRAME:
            raise ProtocolError(frames.PROTOCOL_ERROR, "the frame size is out of range")
        self._max_frame = max_frame
