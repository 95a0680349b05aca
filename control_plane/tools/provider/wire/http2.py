"""HTTP/2 on one connection, by h2 (RFC 9113): over TLS by ALPN, in clear by prior knowledge."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from control_plane.tools.provider.wire.messages import Handler, Headers, Request, has_length

if TYPE_CHECKING:
    from control_plane.tools.provider.wire.server import Link

WINDOW_BYTES = 4 * 1024 * 1024
CONNECTION_WINDOW_BYTES = 64 * 1024 * 1024
# Connection-specific fields have no place in HTTP/2 (RFC 9113, 8.2.2); a script may still name them.
HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "upgrade", "proxy-connection"})


@dataclass(slots=True)
class _Stream:
    headers: list[tuple[bytes, bytes]]
    body: list[bytes] = field(default_factory=list)
    size: int = 0
    task: asyncio.Task[None] | None = None


class Http2:
    """Reads requests from a link and runs the handler for each, side by side."""

    def __init__(self, link: Link, handler: Handler, max_body_bytes: int, max_streams: int) -> None:
        self._link = link
        self._handler = handler
        self._max_body_bytes = max_body_bytes
        self._streams: dict[int, _Stream] = {}
        self._window = asyncio.Event()
        self._going = False
        # The peer's headers reach our log and script, so they are checked; what a script sends is not.
        self.h2 = H2Connection(
            H2Configuration(
                client_side=False,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.h2.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: max_streams,
                SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_BYTES,
                SettingCodes.MAX_HEADER_LIST_SIZE: 256 * 1024,
            },
        )
        self.h2.initiate_connection()
        self.h2.increment_flow_control_window(CONNECTION_WINDOW_BYTES)
        self.flush()

    def feed(self, data: bytes) -> None:
        """Take bytes of the caller."""
        try:
            events = self.h2.receive_data(data)
        except ProtocolError:
            self.flush()  # h2 has written a GOAWAY that says why
            self._link.close()
            self.lost()
            return
        for event in events:
            self._take(event)
        self.flush()
        if self._going and not self._streams:
            self._link.close()

    def lost(self) -> None:
        """The connection is gone: whoever answers stops."""
        for stream in list(self._streams.values()):
            if stream.task is not None:
                stream.task.cancel()
        self._streams.clear()

    def flush(self) -> None:
        """Write what h2 has ready."""
        data = self.h2.data_to_send()
        if data:
            self._link.write(data)

    def _take(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            self._streams[event.stream_id] = _Stream(list(event.headers))
        elif isinstance(event, DataReceived):
            self._take_data(event)
        elif isinstance(event, StreamEnded):
            stream = self._streams.get(event.stream_id)
            if stream is not None:
                stream.task = asyncio.get_running_loop().create_task(self._answer(event.stream_id, stream))
        elif isinstance(event, StreamReset):
            stream = self._streams.pop(event.stream_id, None)
            if stream is not None and stream.task is not None:
                stream.task.cancel()
        elif isinstance(event, WindowUpdated | RemoteSettingsChanged):
            self._window.set()
            self._window = asyncio.Event()
        elif isinstance(event, ConnectionTerminated):
            self._going = True

    def _take_data(self, event: DataReceived) -> None:
        self.h2.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id)
        stream = self._streams.get(event.stream_id)
        if stream is None:
            return
        stream.size += len(event.data)
        if stream.size > self._max_body_bytes:
            self._streams.pop(event.stream_id)
            self.h2.send_headers(
                event.stream_id, [(":status", "413"), ("content-length", "0")], end_stream=True
            )
            self.h2.reset_stream(event.stream_id, ErrorCodes.NO_ERROR)
            return
        stream.body.append(event.data)

    async def _answer(self, stream_id: int, stream: _Stream) -> None:
        request = _as_request(stream, self._link.id)
        reply = Http2Reply(self, stream_id, self._link, head=request.method == "HEAD")
        try:
            await self._handler(request, reply)
        finally:
            self._streams.pop(stream_id, None)
        if self._going and not self._streams:
            self._link.close()

    async def send_data(self, stream_id: int, data: bytes, *, end: bool = False) -> None:
        """Send `data` as the peer's windows allow."""
        view = memoryview(data)
        while True:
            room = min(self.h2.local_flow_control_window(stream_id), self.h2.max_outbound_frame_size)
            if len(view) <= room:
                self.h2.send_data(stream_id, bytes(view), end_stream=end)
                return
            if room > 0:
                self.h2.send_data(stream_id, bytes(view[:room]))
                view = view[room:]
                continue
            self.flush()
            await self._window.wait()


class Http2Reply:
    """The reply to one request (see `messages.Reply`)."""

    def __init__(self, connection: Http2, stream_id: int, link: Link, *, head: bool) -> None:
        self.status = 0
        self.broken = False
        self._connection = connection
        self._stream_id = stream_id
        self._link = link
        self._head = head

    async def send(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer, with its content-length."""
        bodiless = self._head or not body
        if not has_length(headers):
            headers = (*headers, ("content-length", str(len(body))))
        self._begin(status, headers, end=bodiless)
        if not bodiless:
            await self._connection.send_data(self._stream_id, body, end=True)
        self._connection.flush()
        await self._link.drained()

    async def start(self, status: int, headers: Headers) -> None:
        """Send the headers."""
        self._begin(status, headers, end=False)
        self._connection.flush()

    async def write(self, *pieces: bytes) -> None:
        """Send each piece as a DATA frame, or more if it is large."""
        if not self._head:
            for piece in pieces:
                await self._connection.send_data(self._stream_id, piece)
            self._connection.flush()
        await self._link.drained()

    async def end(self, trailers: Headers = ()) -> None:
        """End the stream, by trailers if there are any."""
        if trailers:
            self._connection.h2.send_headers(self._stream_id, list(trailers), end_stream=True)
        else:
            self._connection.h2.end_stream(self._stream_id)
        self._connection.flush()

    async def raw(self, data: bytes) -> None:
        """Reset the stream: bytes outside of frames have no meaning here."""
        self.close()

    def close(self) -> None:
        """Reset the stream."""
        self.broken = True
        self._connection.h2.reset_stream(self._stream_id, ErrorCodes.INTERNAL_ERROR)
        self._connection.flush()

    def reset(self) -> None:
        """Reset the connection."""
        self.broken = True
        self._link.reset()

    def _begin(self, status: int, headers: Headers, *, end: bool) -> None:
        self.status = status
        fields = [(":status", str(status))]
        fields += [(name.lower(), value) for name, value in headers if name.lower() not in HOP_BY_HOP]
        self._connection.h2.send_headers(self._stream_id, fields, end_stream=end)


def _as_request(stream: _Stream, connection: int) -> Request:
    pseudo: dict[bytes, bytes] = {}
    headers: list[tuple[str, str]] = []
    for name, value in stream.headers:
        if name.startswith(b":"):
            pseudo[name] = value
        else:
            headers.append((name.decode("latin-1"), value.decode("latin-1")))
    path, _, query = pseudo.get(b":path", b"/").decode("latin-1").partition("?")
    if b":authority" in pseudo:
        headers.insert(0, ("host", pseudo[b":authority"].decode("latin-1")))
    return Request(
        method=pseudo.get(b":method", b"GET").decode("latin-1"),
        path=path,
        query=query,
        headers=tuple(headers),
        body=b"".join(stream.body),
        http_version="2",
        connection=connection,
    )
