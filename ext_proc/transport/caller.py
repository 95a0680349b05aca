"""Calls of the processor's own, through Envoy's inner listener on a Unix socket.

There a request is routed by what the processor says and nothing else is asked of it; keys, retries and time
limits are those of any other call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx

from ext_proc.continuation import CallFailed
from ext_proc.contract import headers as names
from ext_proc.exchange import Forward, RequestHead

# Said anew by each hop, or by httpx itself.
_OF_THE_HOP: Final = frozenset(
    ("connection", "content-length", "expect", "host", "keep-alive", "te", "transfer-encoding", "upgrade")
)
CONNECT_S: Final = 2.0
HOST: Final = "outrigger"


class _Reply:
    """A response whose body is still to be read."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
        self.raw: Sequence[tuple[bytes, bytes]] = response.headers.raw

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes."""
        try:
            async for part in self._response.aiter_raw():
                yield part
        except httpx.HTTPError as error:
            raise CallFailed(f"the answer broke off ({type(error).__name__})") from None


class EnvoyCaller:
    """Calls through the inner listener at `socket`; the connection pool is made with the first call."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._client: httpx.AsyncClient | None = None

    @asynccontextmanager
    async def call(self, head: RequestHead, forward: Forward, body: bytes) -> AsyncIterator[_Reply]:
        """Send the request `head` as `forward` says, with `body` if that has none; leaving ends the call.

        Raises:
            CallFailed: there was no answer at all.
        """
        request = _request(head, forward, body)
        try:
            response = await self._opened().send(request, stream=True)
        except httpx.HTTPError as error:
            raise CallFailed(f"no answer ({type(error).__name__})") from None
        try:
            yield _Reply(response)
        finally:
            await response.aclose()

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            limits = httpx.Limits(max_connections=None)
            # Envoy bounds the call itself, by the Backend's time limits.
            self._client = httpx.AsyncClient(
                transport=httpx.AsyncHTTPTransport(uds=str(self._socket), limits=limits),
                timeout=httpx.Timeout(None, connect=CONNECT_S),
                trust_env=False,
            )
        return self._client

    async def close(self) -> None:
        """Close every connection."""
        if self._client is not None:
            await self._client.aclose()


def _request(head: RequestHead, forward: Forward, body: bytes) -> httpx.Request:
    """Return the request as it came, byte for byte, but for what `forward` changes."""
    left_out = _OF_THE_HOP | set(forward.remove)
    kept = {
        name: value
        for name, value in head.headers.items()
        if not name.startswith(":") and name not in left_out
    }
    sent = {**kept, names.ROUTE: forward.route, "host": HOST}
    target = forward.path or (f"{head.path}?{head.query}" if head.query else head.path)
    return httpx.Request(
        "POST",
        httpx.URL(scheme="http", host=HOST, raw_path=_encoded(target)),
        # Made without a client, it gets none of a client's own headers.
        headers=[(name.encode(), _encoded(value)) for name, value in sent.items()],
        content=forward.body if forward.body is not None else body,
    )


def _encoded(text: str) -> bytes:
    # As `transport/codec.py` decoded it.
    return text.encode("utf-8", "surrogateescape")
