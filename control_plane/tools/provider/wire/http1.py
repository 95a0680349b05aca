"""HTTP/1.0 and 1.1 on one connection, by h11 (RFC 9112). One request at a time; pipelined ones wait."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

import h11

from control_plane.tools.provider.wire.messages import Handler, Headers, Request, has_length

if TYPE_CHECKING:
    from control_plane.tools.provider.wire.server import Link

HEAD_BYTES = 256 * 1024
PIPELINED_BYTES = 1024 * 1024
BODILESS = frozenset({204, 304})


class Http1:
    """Reads requests from a link and runs the handler for each."""

    def __init__(self, link: Link, handler: Handler, max_body_bytes: int) -> None:
        self._link = link
        self._handler = handler
        self._max_body_bytes = max_body_bytes
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        self._request: h11.Request | None = None
        self._body: list[bytes] = []
        self._size = 0
        self._task: asyncio.Task[None] | None = None
        self._pipelined = 0

    def feed(self, data: bytes) -> None:
        """Take bytes of the caller."""
        self._h11.receive_data(data)
        if self._task is None:
            self._advance()
            return
        self._pipelined += len(data)
        if self._pipelined > PIPELINED_BYTES:
            self._link.close()  # no client pipelines a mebibyte; holding it back would hide its hang-up

    def lost(self) -> None:
        """The connection is gone: whoever answers stops."""
        if self._task is not None:
            self._task.cancel()

    def _advance(self) -> None:
        try:
            while self._task is None:
                event = self._h11.next_event()
                if event is h11.NEED_DATA:
                    if self._h11.they_are_waiting_for_100_continue:
                        self._send(h11.InformationalResponse(status_code=100, headers=[]))
                    return
                if event is h11.PAUSED:
                    return
                if isinstance(event, h11.ConnectionClosed):
                    self._link.close()
                    return
                self._take(event)
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint, str(error))

    def _take(self, event: object) -> None:
        if isinstance(event, h11.Request):
            self._request, self._body, self._size = event, [], 0
        elif isinstance(event, h11.Data):
            self._size += len(event.data)
            if self._size > self._max_body_bytes:
                raise h11.RemoteProtocolError("the body is too large", error_status_hint=413)
            self._body.append(bytes(event.data))
        elif isinstance(event, h11.EndOfMessage) and self._request is not None:
            reply = Http1Reply(self._link, self._h11, head=self._request.method == b"HEAD")
            self._task = asyncio.get_running_loop().create_task(
                self._answer(self._as_request(self._request), reply)
            )

    def _as_request(self, event: h11.Request) -> Request:
        target = event.target.decode("latin-1")
        if not target.startswith("/") and "://" in target:  # absolute form, as sent to a proxy
            target = "/" + target.split("://", 1)[1].partition("/")[2]
        path, _, query = target.partition("?")
        return Request(
            method=event.method.decode("ascii"),
            path=path,
            query=query,
            headers=tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers),
            body=self._body[0] if len(self._body) == 1 else b"".join(self._body),
            http_version=event.http_version.decode("ascii"),
            connection=self._link.id,
        )

    async def _answer(self, request: Request, reply: Http1Reply) -> None:
        try:
            await self._handler(request, reply)
        finally:
            self._task = None
            self._pipelined = 0
            self._request = None
            self._body = []
        if self._link.closed:
            return
        if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
            self._h11.start_next_cycle()
            self._advance()
        else:
            self._link.close()

    def _refuse(self, status: int, reason: str) -> None:
        if self._h11.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = f'{{"error":{{"message":"{status}: bad HTTP","type":"invalid_request_error"}}}}'.encode()
            headers = [
                ("content-type", "application/json"),
                ("content-length", str(len(body))),
                ("connection", "close"),
            ]
            self._send(
                h11.Response(
                    status_code=status, headers=headers, reason=reason[:80].encode("ascii", "replace")
                )
            )
            self._send(h11.Data(data=body))
        self._link.close()

    def _send(self, event: h11.Event) -> None:
        data = self._h11.send(event)
        if data:
            self._link.write(data)


class Http1Reply:
    """The reply to one request (see `messages.Reply`)."""

    def __init__(self, link: Link, connection: h11.Connection, *, head: bool) -> None:
        self.status = 0
        self.broken = False
        self._link = link
        self._h11 = connection
        self._head = head

    async def send(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer, with its content-length."""
        framed = [*headers]
        if status not in BODILESS and not has_length(headers):
            framed.append(("content-length", str(len(body))))
        head = self._begin(status, framed)
        try:
            content = self._bytes(h11.Data(data=body)) if body and not self._bodiless else b""
            self._link.write(head + content + self._bytes(h11.EndOfMessage()))
        except h11.LocalProtocolError:  # a script says another length than the body has: let it
            self._link.write(head + body)
            self.close()
        await self._link.drained()

    async def start(self, status: int, headers: Headers) -> None:
        """Send the headers; the body is chunked, or ends with the connection for HTTP/1.0."""
        self._link.write(self._begin(status, list(headers)))

    async def write(self, *pieces: bytes) -> None:
        """Send each piece as a chunk."""
        if not self._bodiless:
            self._link.write(b"".join([self._bytes(h11.Data(data=piece)) for piece in pieces]))
        await self._link.drained()

    async def end(self, trailers: Headers = ()) -> None:
        """Send the last chunk."""
        self._link.write(self._bytes(h11.EndOfMessage(headers=list(trailers))))

    async def raw(self, data: bytes) -> None:
        """Write `data` as it is and close."""
        self.status = _status_of(data)
        self._link.write(data)
        await self._link.drained()
        self._link.close()

    def close(self) -> None:
        """Close the connection; what was written is still sent."""
        self.broken = True
        self._link.close()

    def reset(self) -> None:
        """Reset the connection."""
        self.broken = True
        self._link.reset()

    @property
    def _bodiless(self) -> bool:
        return self._head or self.status in BODILESS

    def _begin(self, status: int, headers: list[tuple[str, str]]) -> bytes:
        self.status = status
        encoded = [(name.encode(), value.encode()) for name, value in headers]
        return self._bytes(h11.Response(status_code=status, headers=encoded, reason=_reason(status)))

    def _bytes(self, event: h11.Event) -> bytes:
        return self._h11.send(event) or b""


def _reason(status: int) -> bytes:
    if status == 200:
        return b"OK"
    try:
        return HTTPStatus(status).phrase.encode()
    except ValueError:
        return b""


def _status_of(raw: bytes) -> int:
    words = raw[:16].split()
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
