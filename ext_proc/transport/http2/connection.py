"""One HTTP/2 connection of the peer: frames in, calls out (RFC 9113).

What breaks the connection ends it with a GOAWAY; what breaks one call ends that call.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.blocks import MAX_BLOCK_BYTES, HeaderBlocks
from ext_proc.transport.http2.call import HALF_WINDOW, WINDOW
from ext_proc.transport.http2.calls import Calls, Serving
from ext_proc.transport.http2.frames import ProtocolError
from ext_proc.transport.stream import Abort

CONNECTION_WINDOW: Final = frames.LARGEST_WINDOW
OUR_MAX_FRAME: Final = 1024 * 1024
# A peer that has not read our last bytes by then reads none.
LINGER_S: Final = 0.5

_OPENING: Final = frames.settings(
    {
        frames.SETTINGS_HEADER_TABLE_SIZE: 0,
        frames.SETTINGS_ENABLE_PUSH: 0,
        frames.SETTINGS_MAX_CONCURRENT_STREAMS: 2**31 - 1,
        frames.SETTINGS_INITIAL_WINDOW_SIZE: WINDOW,
        frames.SETTINGS_MAX_FRAME_SIZE: OUR_MAX_FRAME,
        frames.SETTINGS_MAX_HEADER_LIST_SIZE: MAX_BLOCK_BYTES,
    }
) + frames.window_update(0, CONNECTION_WINDOW - frames.DEFAULT_WINDOW)
_SETTLING_PING: Final = b"settling"


class Connection(asyncio.Protocol):
    """Serves the peer's calls, each by a task of its own."""

    def __init__(self, serving: Serving, loop: asyncio.AbstractEventLoop) -> None:
        self._serving = serving
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        # Of a frame that is not whole: what has come, how much that is, how much it takes to go on.
        self._rest: list[bytes] = []
        self._have = 0
        self._need = 0
        self._greeted = False
        # Header blocks.
        self._blocks = HeaderBlocks(serving.services)
        self._known = self._blocks.known
        self._open_block: tuple[int, int, bytearray] | None = None  # stream, flags, what came of it
        # Calls.
        self._calls = Calls(serving, loop)
        self._open = self._calls.open
        self._outgoing = self._calls.outgoing
        self._last_id = 0
        self._received = 0
        # The end.
        self._draining = False
        self._settled_id: int | None = None  # the last stream that is served
        self._closing = False
        self._lingering: asyncio.TimerHandle | None = None

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the peer."""
        self._transport = self._outgoing.transport = cast(asyncio.Transport, transport)
        self._serving.connections.add(self)
        self._outgoing.put(_OPENING)
        if self._serving.stopping:
            self._end(frames.NO_ERROR, "")

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel every call."""
        self._closing = True
        if self._lingering is not None:
            self._lingering.cancel()
        self._calls.cancel_all()
        self._serving.connections.discard(self)
        self._serving.changed()

    def eof_received(self) -> bool:
        """End: a peer that sends no more does not wait for answers either."""
        self.close()
        return False

    def pause_writing(self) -> None:
        """Let no message go: the peer reads slowly."""
        self._outgoing.pause()

    def resume_writing(self) -> None:
        """Let messages go again."""
        self._outgoing.resume()

    def data_received(self, data: bytes) -> None:
        """Take what the peer sent, frame by frame."""
        if self._closing:
            return
        if self._rest:
            self._rest.append(data)
            self._have += len(data)
            if self._have < self._need:
                return
            data = b"".join(self._rest)
            self._rest.clear()
        try:
            self._frames(data)
        except ProtocolError as error:
            self._serving.log.warning("a peer broke HTTP/2; its connection ends", reason=str(error))
            self._end(error.code, str(error))

    # --- frames in

    def _frames(self, data: bytes) -> None:
        position, size = 0, len(data)
        if not self._greeted:
            if not self._greet(data):
                self._keep(data, size + 1)
                return
            position = len(frames.PREFACE)
        need = frames.HEADER_BYTES
        while size - position >= frames.HEADER_BYTES:
            high, low, kind, flags, stream_id = frames.read_header(data, position)
            start = position + frames.HEADER_BYTES
            end = start + (high << 8 | low)
            if end > size:
                need = end - position
                if need > OUR_MAX_FRAME + frames.HEADER_BYTES:
                    raise ProtocolError(frames.FRAME_SIZE_ERROR, "a frame is longer than announced")
                break
            stream_id &= frames.LARGEST_ID
            if kind == frames.DATA and self._open_block is None:
                self._on_data(flags, stream_id, data[start:end])
            else:
                self._frame(kind, flags, stream_id, data[start:end])
            if self._closing:
                return
            position = end
        if position < size:
            self._keep(data[position:], need)

    def _keep(self, data: bytes, need: int) -> None:
        """Keep what is not whole until `need` bytes have come."""
        self._rest.append(data)
        self._have = len(data)
        self._need = need

    def _greet(self, data: bytes) -> bool:
        """Return whether `data` begins with the whole preface."""
        if not data.startswith(frames.PREFACE[: len(data)]):
            raise ProtocolError(frames.PROTOCOL_ERROR, "no HTTP/2 preface")
        self._greeted = len(data) >= len(frames.PREFACE)
        return self._greeted

    def _frame(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        """Take any frame but DATA, which is not worth another call; DATA comes here to be refused."""
        if self._open_block is not None and kind != frames.CONTINUATION:
            raise ProtocolError(frames.PROTOCOL_ERROR, "a header block is not finished")
        if kind == frames.HEADERS:
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
        else:
            self._on_rare(kind, stream_id, payload)

    def _on_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        length = len(payload)
        self._received += length
        if self._received >= CONNECTION_WINDOW // 2:
            self._outgoing.put(frames.window_update(0, self._received))
            self._received = 0
        call = self._open.get(stream_id)
        if call is None:
            self._late(stream_id)
            return
        if call.ended:
            if not call.finish:  # else the service has ended, and nobody reads it
                self._calls.reset(call, frames.STREAM_CLOSED)
            return
        call.received += length
        if call.received >= HALF_WINDOW:
            if call.received > WINDOW:
                raise ProtocolError(frames.FLOW_CONTROL_ERROR, "a call's data is more than its window")
            if call.caught_up:
                self._outgoing.replenish(call)
        if flags & frames.PADDED:
            payload = frames.without_padding(flags, payload)
        try:
            call.feed(payload)
        except Abort as abort:
            call.ended = bool(flags & frames.END_STREAM)
            self._calls.abort(call, abort)
            return
        if flags & frames.END_STREAM:
            call.end()

    def _on_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        if flags & (frames.PADDED | frames.HAS_PRIORITY):
            payload = frames.without_priority(flags, frames.without_padding(flags, payload))
        if not flags & frames.END_HEADERS:
            self._open_block = (stream_id, flags, bytearray(payload))
            return
        self._on_block(flags, stream_id, payload)

    def _on_continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        if self._open_block is None or self._open_block[0] != stream_id:
            raise ProtocolError(frames.PROTOCOL_ERROR, "a continuation of nothing")
        _, first_flags, block = self._open_block
        block += payload
        if len(block) > MAX_BLOCK_BYTES:
            raise ProtocolError(frames.ENHANCE_YOUR_CALM, "a header block is too long")
        if flags & frames.END_HEADERS:
            self._open_block = None
            self._on_block(first_flags, stream_id, bytes(block))

    def _on_block(self, flags: int, stream_id: int, block: bytes) -> None:
        service = self._known.get(block)
        if service is None:
            service = self._blocks.read(block)
        if stream_id <= self._last_id or not stream_id & 1:
            self._on_trailers(flags, stream_id)
            return
        self._last_id = stream_id
        if self._settled_id is None:
            self._calls.begin(stream_id, service, ended=bool(flags & frames.END_STREAM))
        # Else the peer has been told that nobody serves it.

    def _on_trailers(self, flags: int, stream_id: int) -> None:
        call = self._open.get(stream_id)
        if call is None:
            self._late(stream_id)
            if not flags & frames.END_STREAM:
                raise ProtocolError(frames.PROTOCOL_ERROR, "a stream is opened again")
        elif not flags & frames.END_STREAM:
            self._calls.reset(call, frames.PROTOCOL_ERROR)
        elif not call.ended:
            call.end()
        elif not call.finish:
            self._calls.reset(call, frames.STREAM_CLOSED)

    def _on_window_update(self, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ProtocolError(frames.FRAME_SIZE_ERROR, "a window update has four bytes")
        increment = frames.read_long(payload)
        if not stream_id:
            if not increment:
                raise ProtocolError(frames.PROTOCOL_ERROR, "a window update adds something")
            self._outgoing.widen(increment)
            return
        call = self._open.get(stream_id)
        if call is None:
            self._late(stream_id)
        elif not increment:
            self._calls.reset(call, frames.PROTOCOL_ERROR)
        elif not self._outgoing.widen_call(call, increment):
            self._calls.reset(call, frames.FLOW_CONTROL_ERROR)

    def _on_reset(self, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ProtocolError(frames.FRAME_SIZE_ERROR, "a reset has four bytes")
        call = self._open.get(stream_id)
        if call is None:
            self._late(stream_id)
        else:
            self._calls.cancel(call)

    def _on_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ProtocolError(frames.PROTOCOL_ERROR, "settings are of the connection")
        if len(payload) % 6 or (flags & frames.ACK and payload):
            raise ProtocolError(frames.FRAME_SIZE_ERROR, "settings of a wrong length")
        if flags & frames.ACK:
            self._blocks.keep_no_table()
            return
        for name, value in frames.read_settings(payload):
            if name == frames.SETTINGS_INITIAL_WINDOW_SIZE:
                self._outgoing.resize(self._open.values(), value)
            elif name == frames.SETTINGS_MAX_FRAME_SIZE:
                self._outgoing.limit_frames(value)
            elif name == frames.SETTINGS_ENABLE_PUSH and value > 1:
                raise ProtocolError(frames.PROTOCOL_ERROR, "push is on or off")
        self._outgoing.put(frames.frame(frames.SETTINGS, frames.ACK, 0))
        self._outgoing.pump()

    def _on_ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ProtocolError(frames.PROTOCOL_ERROR, "pings are of the connection")
        if len(payload) != 8:
            raise ProtocolError(frames.FRAME_SIZE_ERROR, "a ping has eight bytes")
        if not flags & frames.ACK:
            self._outgoing.put(frames.frame(frames.PING, frames.ACK, 0, payload))
        elif self._draining and payload == _SETTLING_PING:
            self._settle()

    def _on_rare(self, kind: int, stream_id: int, payload: bytes) -> None:
        """Check what has no effect. A peer that goes away opens no more calls, those that run go on."""
        if kind == frames.PUSH_PROMISE:
            raise ProtocolError(frames.PROTOCOL_ERROR, "a client pushes nothing")
        if kind == frames.GOAWAY and stream_id:
            raise ProtocolError(frames.PROTOCOL_ERROR, "going away is of the connection")
        if kind == frames.PRIORITY and not stream_id:
            raise ProtocolError(frames.PROTOCOL_ERROR, "a priority is of a stream")
        if (kind == frames.GOAWAY and len(payload) < 8) or (kind == frames.PRIORITY and len(payload) != 5):
            raise ProtocolError(frames.FRAME_SIZE_ERROR, "a frame of a wrong length")

    def _late(self, stream_id: int) -> None:
        """Let a late frame of a call that has ended pass; raise ProtocolError if there never was one."""
        if stream_id > self._last_id or not stream_id & 1:
            raise ProtocolError(frames.PROTOCOL_ERROR, "a frame of a stream that was never open")

    # --- the end

    @property
    def calls(self) -> int:
        """How many calls run."""
        return len(self._open)

    @property
    def idle(self) -> bool:
        """Whether no call runs here and none will."""
        return self._settled_id is not None and not self._open

    def drain(self) -> None:
        """Tell the peer to open no more calls here; those that it opened before it hears of that are served.

        RFC 9113 §6.8: the last stream is named once the peer is known to have heard, by a ping.
        """
        if self._draining or self._closing:
            return
        self._draining = True
        self._outgoing.put(frames.goaway(frames.LARGEST_ID, frames.NO_ERROR))
        self._outgoing.put(frames.frame(frames.PING, 0, 0, _SETTLING_PING))

    def _settle(self) -> None:
        if self._settled_id is None:
            self._settled_id = self._last_id
            self._outgoing.put(frames.goaway(self._last_id, frames.NO_ERROR))
            self._serving.changed()

    def close(self) -> None:
        """End the connection with whatever runs on it."""
        self._end(frames.NO_ERROR, "")

    def _end(self, code: int, reason: str) -> None:
        if self._closing:
            return
        self._closing = True
        last_id = self._last_id if self._settled_id is None else self._settled_id
        self._outgoing.put(frames.goaway(last_id, code, reason))
        self._outgoing.flush()
        self._calls.cancel_all()
        if self._transport is not None:
            self._transport.close()
            self._lingering = self._loop.call_later(LINGER_S, self._transport.abort)
