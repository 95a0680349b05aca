"""Accepts connections, charges what a new one costs, and hands each to HTTP/1.1 or HTTP/2."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import struct
from collections.abc import Coroutine
from pathlib import Path
from typing import Protocol, cast

from control_plane.tools.provider.observations import ConnectionSeen, Observations
from control_plane.tools.provider.timing import Clock
from control_plane.tools.provider.wire.http1 import Http1
from control_plane.tools.provider.wire.http2 import Http2
from control_plane.tools.provider.wire.messages import Handler

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
BACKLOG = 4096
# linger on, for 0 seconds: closing sends RST instead of FIN
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class CannotListen(Exception):
    """The address cannot be listened on; the message says which and why, in one sentence."""


class Codec(Protocol):
    """What speaks HTTP on a link."""

    def feed(self, data: bytes) -> None:
        """Take bytes of the caller."""

    def lost(self) -> None:
        """The connection is gone."""


class Link(asyncio.Protocol):
    """One connection: bytes out, flow control, and the codec that its first bytes call for."""

    def __init__(self, server: Server, sock: socket.socket, client: str) -> None:
        self.closed = False
        self._server = server
        self._sock = sock
        self._client = client
        self._transport: asyncio.Transport | None = None
        self._codec: Codec | None = None
        self._first = b""
        self._room: asyncio.Future[None] | None = None
        self._seen: ConnectionSeen | None = None

    @property
    def id(self) -> int:
        """The connection's id in the observations."""
        return self._seen.id if self._seen is not None else 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; by ALPN the protocol may be known already."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one by shape only
        tls = transport.get_extra_info("ssl_object")
        self._seen = self._server.opened(self, self._client, tls=tls is not None)
        if tls is not None and tls.selected_alpn_protocol() == "h2":
            self._choose(http2=True)

    def data_received(self, data: bytes) -> None:
        """Pass bytes on, once it is clear to whom."""
        if self._codec is None:
            data = self._first = self._first + data
            if len(data) < len(PREFACE) and PREFACE.startswith(data):
                return
            self._choose(http2=data.startswith(PREFACE))
            self._first = b""
        if self._codec is not None:
            self._codec.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop whoever answers on this connection."""
        self.closed = True
        self.resume_writing()
        if self._codec is not None:
            self._codec.lost()
        if self._seen is not None:
            self._server.lost(self, self._seen)

    def pause_writing(self) -> None:
        """The caller reads too slowly."""
        self._room = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """The caller has caught up."""
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        self._room = None

    async def drained(self) -> None:
        """Return when there is room for more bytes."""
        if self._room is not None:
            await asyncio.shield(self._room)

    def write(self, data: bytes) -> None:
        """Send `data`; nothing happens on a connection that is gone."""
        if self._transport is not None and not self.closed:
            self._transport.write(data)

    def close(self) -> None:
        """Send what is left, then close."""
        self.closed = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once; what is not sent yet is lost."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    def reset(self) -> None:
        """Close by a TCP reset."""
        if not self.closed:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self.abort()

    def _choose(self, *, http2: bool) -> None:
        if self._seen is not None:
            self._seen.http_version = "2" if http2 else "1.1"
        self._codec = self._server.codec(self, http2=http2)


class Server:
    """The listening socket and its connections.

    `connection_cost_s` passes between accept and the first byte that is read (TLS handshake included), which
    is what a real handshake over a long way costs.
    """

    def __init__(
        self,
        handler: Handler,
        observations: Observations,
        clock: Clock,
        *,
        tls: ssl.SSLContext | None,
        connection_cost_s: float,
        max_body_bytes: int,
        max_streams: int,
    ) -> None:
        self._handler = handler
        self._observations = observations
        self._clock = clock
        self._tls = tls
        self._connection_cost_s = connection_cost_s
        self._max_body_bytes = max_body_bytes
        self._max_streams = max_streams
        self._listener: socket.socket | None = None
        self._links: set[Link] = set()
        self._no_links = asyncio.Event()
        self._no_links.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port.

        Raises:
            CannotListen: the address is taken or cannot be had.
        """
        try:
            family, kind, proto, _, address = (
                await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
            )[0]
            listener = socket.socket(family, kind, proto)
        except OSError as error:
            raise CannotListen(f"Cannot listen on {host}: {error.strerror or error}.") from error
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            if error.errno == errno.EADDRINUSE:
                message = f"Port {port} on {host} is in use: stop what listens there, or choose another port."
                raise CannotListen(message) from error
            raise CannotListen(f"Cannot listen on {host}:{port}: {error.strerror}.") from error
        self._listener = listener
        self._own(self._accept(listener))
        return int(listener.getsockname()[1])

    async def stop(self) -> None:
        """Close the listening socket and every connection; calls in progress end as aborted."""
        if self._listener is not None:
            self._listener.close()
        for link in list(self._links):
            link.abort()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._no_links.wait()  # connection_lost is called on the loop's next turns

    def opened(self, link: Link, client: str, *, tls: bool) -> ConnectionSeen:
        """Note a connection that is ready."""
        self._links.add(link)
        self._no_links.clear()
        return self._observations.connected(client, tls=tls)

    def lost(self, link: Link, seen: ConnectionSeen) -> None:
        """Note a connection that is gone."""
        self._links.discard(link)
        if not self._links:
            self._no_links.set()
        self._observations.disconnected(seen)

    def codec(self, link: Link, *, http2: bool) -> Codec:
        """Return what speaks HTTP on `link`."""
        if http2:
            return Http2(link, self._handler, self._max_body_bytes, self._max_streams)
        return Http1(link, self._handler, self._max_body_bytes)

    def _own(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, address = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno in {errno.EMFILE, errno.ENFILE}:
                    await asyncio.sleep(0.1)  # out of descriptors: wait for some to be closed
                    continue
                if error.errno in {errno.ECONNABORTED, errno.EINTR}:
                    continue
                raise
            self._own(self._open(sock, f"{address[0]}:{address[1]}"))

    async def _open(self, sock: socket.socket, client: str) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._connection_cost_s:
            await self._clock.sleep_until(self._clock.monotonic() + self._connection_cost_s)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: Link(self, sock, client), sock, ssl=self._tls
            )
        except (OSError, ssl.SSLError):
            sock.close()
            self._observations.handshake_failed()


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return a server context that offers h2 and http/1.1.

    Raises:
        CannotListen: a file is missing or is no certificate or key.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2", "http/1.1"])
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:  # SSLError is one
        message = f"Cannot use the certificate {certificate} with the key {key}: {error.strerror or error}."
        raise CannotListen(message) from error
    return context
