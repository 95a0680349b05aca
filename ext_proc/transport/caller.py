"""Calls of the processor's own, through Envoy's inner listener on a Unix socket.

There a request is routed by what the processor says and nothing else is asked of it; keys, retries and time
limits are those of any other call. Each call has a connection of its own: a thousand followers may have to go
on alone at the same moment, and a pool would look through all of them for each.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpcore

from ext_proc.continuation import CallFailed
from ext_proc.contract import headers as names
from ext_proc.contract import telemetry
from ext_proc.exchange import Forward, RequestHead

# Said anew by each hop.
_OF_THE_HOP: Final = frozenset(
    ("connection", "content-length", "expect", "host", "keep-alive", "te", "transfer-encoding", "upgrade")
)
CONNECT_S: Final = 2.0
HOST: Final = b"outrigger"
_FAILURES: Final = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException)


class _Reply:
    """A response whose body is still to be read."""

    def __init__(self, response: httpcore.Response) -> None:
        self._response = response
        self.status = response.status
        self.raw: Sequence[tuple[bytes, bytes]] = response.headers
        self.headers: Mapping[str, str] = {
            name.decode("latin-1").lower(): value.decode("utf-8", "surrogateescape")
            for name, value in response.headers
        }

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes."""
        try:
            async for part in self._response.aiter_stream():
                yield part
        except _FAILURES as error:
            raise CallFailed(f"the answer broke off ({type(error).__name__})") from None


class EnvoyCaller:
    """Calls through the inner listener at `socket`."""

    def __init__(self, socket: Path) -> None:
        self._socket = str(socket)
        self._backend = httpcore.AnyIOBackend()

    @asynccontextmanager
    async def call(self, head: RequestHead, forward: Forward, body: bytes) -> AsyncIterator[_Reply]:
        """Send the request `head` as `forward` says, with `body` if that has none; leaving ends the call.

        Envoy bounds it in time, by the Backend's limits.

        Raises:
            CallFailed: there was no answer at all.
        """
        try:
            stream = await self._backend.connect_unix_socket(self._socket, timeout=CONNECT_S)
        except _FAILURES as error:
            raise CallFailed(f"no connection ({type(error).__name__})") from None
        connection = httpcore.AsyncHTTP11Connection(httpcore.Origin(b"http", HOST, 80), stream)
        try:
            try:
                response = await connection.handle_async_request(_request(head, forward, body))
            except _FAILURES as error:
                raise CallFailed(f"no answer ({type(error).__name__})") from None
            yield _Reply(response)
        finally:
            await connection.aclose()


def _request(head: RequestHead, forward: Forward, body: bytes) -> httpcore.Request:
    """Return the request as it came, byte for byte, but for what `forward` changes."""
    left_out = _OF_THE_HOP | set(forward.remove)
    kept = [
        (name.encode(), _encoded(value))
        for name, value in head.headers.items()
        if not name.startswith(":") and name not in left_out
    ]
    content = forward.body if forward.body is not None else body
    own = [
        (b"host", HOST),
        (b"content-length", str(len(content)).encode()),
        (names.ROUTE.encode(), forward.route.encode()),
    ]
    own += [
        (names.KEY.encode(), str(value).encode()) for name, value in forward.metadata if name == telemetry.KEY
    ]
    target = forward.path or (f"{head.path}?{head.query}" if head.query else head.path)
    url = httpcore.URL(scheme=b"http", host=HOST, port=None, target=_encoded(target))
    return httpcore.Request("POST", url, headers=[*own, *kept], content=content)


def _encoded(text: str) -> bytes:
    # As `transport/codec.py` decoded it.
    return text.encode("utf-8", "surrogateescape")
