"""One HTTP/2 connection of the peer: frames in, calls out; flow control both ways (RFC 9113).

What breaks the protocol ends the connection with a GOAWAY; what breaks one call ends that call. A header
block that came before means the same again, since the peer is told to keep no dynamic table: it is read once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from hpack import Decoder
from hpack.exceptions import HPACKError
from structlog.typing import FilteringBoundLogger

from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.call import Call
from ext_proc.transport.http2.frames import ProtocolError
from ext_proc.transport.stream import Abort, Service, Services, Status

# A whole message fits into a call's window, so that no message waits for our permission.
CALL_WINDOW: Final = 64 * 1024 * 1024
CONNECTION_WINDOW: Final = frames.LARGEST_WINDOW
OUR_MAX_FRAME: Final = 1024 * 1024
MAX_HEADER_BLOCK: Final = 64 * 1024
# The peer sends a handful of different blocks.
MAX_KNOWN_BLOCKS: Final = 256
_HPACK_SIZE_UPDATE: Final = 0x20

_OPENING: Final = frames.settings(
    {
        frames.SETTINGS_HEADER_TABLE_SIZE: 0,
        frames.SETTINGS_ENABLE_PUSH: 0,
        frames.SETTINGS_MAX_CONCURRENT_STREAMS: 2**31 - 1,
        frames.SETTINGS_INITIAL_WINDOW_SIZE: CALL_WINDOW,
        frames.SETTINGS_MAX_FRAME_SIZE: OUR_MAX_FRAME,
    }
) + frames.window_update(0, CONNECTION_WINDOW - frames.DEFAULT_WINDOW)


@dataclass(frozen=True, slots=True)
class Serving:
    """What all connections of a server share. `changed` hears of connections and calls that end."""

    services: Services
    max_message_bytes: int
    log: FilteringBoundLogger
    connections: set[Connection]
    changed: Callable[[], None]


class Connection(asyncio.Protocol):
    """Serves the peer's calls, each by a task of its own."""

    def __init__(self, serving: Serving, loop: asyncio.AbstractEventLoop) -> None:
        self._serving = serving
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._greeted = False
        self._closing = False
        # Header blocks.
        self._decoder = Decoder()
        self._known: dict[bytes, Service] = {}
        self._table_is_empty = False
        self._open_block: tuple[int, int, bytearray] | None = None  # stream, flags, what came of it
        # Calls, and what they wait for.
        self.calls: dict[int, Call] = {}
        self._last_id = 0
        self._received = 0
        self._window = frames.DEFAULT_WINDOW
        self._call_window = frames.DEFAULT_WINDOW
        self._max_frame = frames.DEFAULT_MAX_FRAME
        self._blocked: dict[int, Call] = {}
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._paused = False
        # What goes out together at the end of this turn of the loop.
        self._out: list[bytes] = []

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the peer."""
        self._transport = cast(asyncio.Transport, transport)
        self._serving.connections.add(self)
        self._put(_OPENING)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel every call."""
        self._closing = True
        self._serving.connections.discard(self)
        for call in list(self.calls.values()):
            self._forget(call, cancel=True)
        self._serving.changed()

    def pause_writing(self) -> None:
        """Let nobody go on who has written: the peer reads slowly."""
        self._paused = True

    def resume_writing(self) -> None:
        """Let the writers go on."""
        self._paused = False
        self._pump()

    def data_received(self, data: bytes) -> None:
        """Take what the peer sent, frame by frame."""
        if self._closing:
            return
        try:
            self._frames(self._rest + data if self._rest else data)
        except ProtocolError as error:
            self._serving.log.warning("a peer broke HTTP/2; its connection ends", reason=str(error))
            self._goaway(error.code, str(error))
            self._close()

    # --- frames in

    def _frames(self, data: bytes) -> None:
        position, size = 0, len(data)
        if not self._greeted:
            if size < len(frames.PREFACE):
                if not frames.PREFACE.startswith(data):
                    raise ProtocolError(frames.PROTOCOL_ERROR, "no HTTP/2 preface")
                self._rest = data
                return
            if not data.startswith(frames.PREFACE):
                raise ProtocolError(frames.PROTOCOL_ERROR, "no HTTP/2 preface")
            self._greeted = True
            position = len(frames.PREFACE)
        while size - position >= frames.HEADER_BYTES:
            length = data[position] << 16 | data[position + 1] << 8 | data[position + 2]
            end = position + frames.HEADER_BYTES + length
            if end > size:
                if length > OUR_MAX_FRAME:
                    raise ProtocolError(frames.FRAME_SIZE_ERROR, "a frame is longer than announced")
                break
            stream_id = int.from_bytes(data[position + 5 : position + 9], "big") & 0x7FFF_FFFF
            payload = data[position + frames.HEADER_BYTES : end]
            self._frame(data[position + 3], data[position + 4], stream_id, payload)
            if self._closing:
                return
            position = end
        self._rest = data[position:]

    def _frame(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if self._open_block is not None and kind != frames.CONTINUATION:
            raise ProtocolError(frames.PROTOCOL_ERROR, "a header block is not finished")
        if kind == frames.DATA:
            self._on_data(flags, stream_id, payload)
        elif kind == frames.HEADERS:
            self._on_headers(flags, stream_id, payload)
        elif kind == frames.WINDOW_UPDATE:
            self._on_window_update(stream_id, payload)
        elif kind == frames.RST_STREAM:
            self._on_reset(stream_id, payload)
        elif kind == frames.SETTINGS:
            self._on_settings(flags, stream_id, payload)
        elif kind == frames.PING:
            self._on_ping(flags, stream_id, payload)
        elif kind == frames.CONTINUATION:
            self._on_continuation(flags, stream_id, payload)
        elif kind == frames.PUSH_PROMISE:
            raise ProtocolError(frames.PROTOCOL_ERROR, "a client pushes nothing")
        # GOAWAY: the peer opens no more calls, those that run go on. PRIORITY and unknown kinds: no effect.

    def _on_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        length = len(payload)
        self._received += length
        if self._received >= CONNECTION_WINDOW // 2:
            self._put(frames.window_update(0, self._received))
            self._received = 0
        call = self.calls.get(stream_id)
        if call is None:
            # A late frame of a call that we have ended; any other is none of ours.
            if not stream_id or stream_id > self._last_id:
                raise ProtocolError(frames.PROTOCOL_ERROR, "data of a call that is not open")
            return
        if call.ended:
            raise ProtocolError(frames.STREAM_CLOSED, "data after the end of a call")
        call.received += length
        if call.received >= CALL_WINDOW // 2:
            self._put(frames.window_update(stream_id, call.received))
            call.received = 0
        if flags & frames.PADDED:
            payload = frames.without_padding(flags, payload)
        try:
            call.feed(payload)
        except Abort as abort:
            self._abort(call, abort)
            return
        if flags & frames.END_STREAM:
            call.end()

    def _on_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        payload = frames.without_padding(flags, payload)
        if flags & frames.HAS_PRIORITY:
            payload = payload[5:]
        if not flags & frames.END_HEADERS:
            self._open_block = (stream_id, flags, bytearray(payload))
            return
        self._on_block(flags, stream_id, payload)

    def _on_continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        if self._open_block is None or self._open_block[0] != stream_id:
            raise ProtocolError(frames.PROTOCOL_ERROR, "a continuation of nothing")
        _, first_flags, block = self._open_block
        block += payload
        if len(block) > MAX_HEADER_BLOCK:
            raise ProtocolError(frames.ENHANCE_YOUR_CALM, "a header block is too long")
        if flags & frames.END_HEADERS:
            self._open_block = None
            self._on_block(first_flags, stream_id, bytes(block))

    def _on_block(self, flags: int, stream_id: int, block: bytes) -> None:
        service = self._known.get(block)
        if service is None:
            service = self._read_block(block)
        call = self.calls.get(stream_id)
        if call is not None:
            # Trailers: they can only be the end.
            if not flags & frames.END_STREAM or call.ended:
                raise ProtocolError(frames.PROTOCOL_ERROR, "headers in the middle of a call")
            call.end()
            return
        if stream_id <= self._last_id:
            return  # trailers of a call that we have ended
        if not stream_id & 1:
            raise ProtocolError(frames.PROTOCOL_ERROR, "a client's stream has an odd number")
        self._last_id = stream_id
        call = Call(stream_id, self, self._loop, self._call_window, self._serving.max_message_bytes)
        if flags & frames.END_STREAM:
            call.end()
        self.calls[stream_id] = call
        call.task = self._loop.create_task(self._serve(call, service))

    def _read_block(self, block: bytes) -> Service:
        try:
            headers = self._decoder.decode(block, raw=True)
        except HPACKError as error:
            raise ProtocolError(frames.COMPRESSION_ERROR, f"a header block cannot be read: {error}") from None
        path = next((value for name, value in headers if name == b":path"), b"")
        service = self._serving.services.get(path.decode("utf-8", "replace"), _unimplemented)
        if self._table_is_empty and block and block[0] & 0xE0 != _HPACK_SIZE_UPDATE:
            if len(self._known) >= MAX_KNOWN_BLOCKS:
                self._known.clear()
            self._known[block] = service
        return service

    def _on_window_update(self, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ProtocolError(frames.FRAME_SIZE_ERROR, "a window update has four bytes")
        increment = frames.read_long(payload)
        if not stream_id:
            self._window += increment
            if not increment or self._window > frames.LARGEST_WINDOW:
                raise ProtocolError(frames.FLOW_CONTROL_ERROR, "the connection's window is out of range")
            if self._blocked:
                self._pump()
            return
        call = self.calls.get(stream_id)
        if call is None:
            if stream_id > self._last_id:
                raise ProtocolError(frames.PROTOCOL_ERROR, "a window of a call that is not open")
            return
        call.window += increment
        if not increment or call.window > frames.LARGEST_WINDOW:
            raise ProtocolError(frames.FLOW_CONTROL_ERROR, "a call's window is out of range")
        if call.pending:
            self._pump()

    def _on_reset(self, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ProtocolError(frames.FRAME_SIZE_ERROR, "a reset has four bytes")
        call = self.calls.get(stream_id)
        if call is not None:
            self._forget(call, cancel=True)
            self._serving.changed()
        elif not stream_id or stream_id > self._last_id:
            raise ProtocolError(frames.PROTOCOL_ERROR, "a reset of a call that is not open")

    def _on_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id or len(payload) % 6 or (flags & frames.ACK and payload):
            raise ProtocolError(frames.FRAME_SIZE_ERROR, "settings of a wrong form")
        if flags & frames.ACK:
            # From now on the peer's table has no room, and the first block says so.
            self._decoder.max_allowed_table_size = 0
            self._table_is_empty = True
            return
        for name, value in frames.read_settings(payload):
            if name == frames.SETTINGS_INITIAL_WINDOW_SIZE:
                if value > frames.LARGEST_WINDOW:
                    raise ProtocolError(frames.FLOW_CONTROL_ERROR, "the initial window is out of range")
                for call in self.calls.values():
                    call.window += value - self._call_window
                self._call_window = value
            elif name == frames.SETTINGS_MAX_FRAME_SIZE:
                if not frames.DEFAULT_MAX_FRAME <= value <= frames.LARGEST_FRAME:
                    raise ProtocolError(frames.PROTOCOL_ERROR, "the frame size is out of range")
                self._max_frame = value
        self._put(frames.frame(frames.SETTINGS, frames.ACK, 0))
        if self._blocked:
            self._pump()

    def _on_ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id or len(payload) != 8:
            raise ProtocolError(frames.FRAME_SIZE_ERROR, "a ping of a wrong form")
        if not flags & frames.ACK:
            self._put(frames.frame(frames.PING, frames.ACK, 0, payload))

    # --- calls

    async def _serve(self, call: Call, service: Service) -> None:
        try:
            await service(call)
        except Abort as abort:
            self._finish(call, abort.status, abort.message)
        except Exception as error:
            self._serving.log.error("a call failed", error=type(error).__name__, exc_info=True)
            self._finish(call, Status.INTERNAL, "the call failed; see the log")
        else:
            self._finish(call, Status.OK, "")

    def send(self, call: Call, message: bytes) -> None:
        """Send one message, as far as the peer takes it."""
        if call.id not in self.calls:
            return
        if not call.opened:
            call.opened = True
            self._put(frames.head(call.id))
        size = len(message) + frames.MESSAGE_PREFIX_BYTES
        if size <= call.window and size <= self._window and size <= self._max_frame and not call.pending:
            call.window -= size
            self._window -= size
            self._put(frames.message_frame(call.id, message))
            return
        call.pending += (frames.message_prefix(message), message)
        self._blocked[call.id] = call
        self._pump()

    async def drained(self, call: Call) -> None:
        """Wait until what was sent has been taken."""
        while call.pending and call.id in self.calls:
            waiting = self._waiting[call.id] = self._loop.create_future()
            await waiting

    def _pump(self) -> None:
        """Send what waits, as far as the windows go."""
        for call in list(self._blocked.values()):
            pending = call.pending
            while pending and not self._paused:
                room = min(call.window, self._window, self._max_frame)
                if room <= 0:
                    break
                piece = pending.popleft()
                if len(piece) > room:
                    pending.appendleft(piece[room:])
                    piece = piece[:room]
                call.window -= len(piece)
                self._window -= len(piece)
                self._put(frames.frame(frames.DATA, 0, call.id, piece))
            if pending:
                continue
            del self._blocked[call.id]
            waiting = self._waiting.pop(call.id, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
            if call.finish:
                self._put(call.finish)
                self._forget(call, cancel=False)
                self._serving.changed()

    def _finish(self, call: Call, status: Status, message: str) -> None:
        """End a call with its trailers, after all that waits."""
        if call.id not in self.calls:
            return
        end = frames.trailers(call.id, status, message, opened=call.opened)
        if not call.ended:
            # We take no more of it (RFC 9113 §8.1).
            end += frames.rst_stream(call.id, frames.NO_ERROR)
        if call.pending:
            call.finish = end
            return
        self._put(end)
        self._forget(call, cancel=False)
        self._serving.changed()

    def _abort(self, call: Call, abort: Abort) -> None:
        call.pending.clear()
        self._finish(call, abort.status, abort.message)
        self._forget(call, cancel=True)

    def _forget(self, call: Call, *, cancel: bool) -> None:
        self.calls.pop(call.id, None)
        self._blocked.pop(call.id, None)
        call.pending.clear()
        waiting = self._waiting.pop(call.id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
        if cancel and call.task is not None:
            call.task.cancel()

    # --- the end

    def shut(self) -> None:
        """Tell the peer to open no more calls here; those that run go on."""
        self._goaway(frames.NO_ERROR, "")

    def close(self) -> None:
        """End the connection with whatever runs on it."""
        self._close()

    def _goaway(self, code: int, reason: str) -> None:
        self._put(frames.goaway(self._last_id, code, reason))

    def _close(self) -> None:
        self._closing = True
        self._flush()
        if self._transport is not None:
            self._transport.close()

    # --- bytes out

    def _put(self, data: bytes) -> None:
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)

    def _flush(self) -> None:
        out = self._out
        if out and self._transport is not None and not self._transport.is_closing():
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))
        self._out = []


async def _unimplemented(_call: object) -> None:
    raise Abort(Status.UNIMPLEMENTED, "there is no such method here")
