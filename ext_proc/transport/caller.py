"""Calls of the processor's own, through Envoy's inner listener on a Unix socket.

There a request is routed by what the processor says and nothing else is asked of it; keys, retries and time
limits are those of any other call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx

from ext_proc.continuation import CallFailed
from ext_proc.contract import headers as names
from ext_proc.exchange import Exchange

# Said anew by each hop, or by httpx itself.
_OF_THE_HOP: Final = frozenset(
    ("connection", "content-length", "expect", "host", "keep-alive", "te", "transfer-encoding", "upgrade")
)
CONNECT_S: Final = 2.0


class _Reply:
    """A response whose body is still to be read."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}

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
    async def call(self, exchange: Exchange) -> AsyncIterator[_Reply]:
        """Send what `exchange` was forwarded as once more; leaving the context ends the call.

        Raises:
            CallFailed: there was no answer at all.
        """
        forward, head = exchange.forwarded, exchange.head
        if forward is None:
            raise CallFailed("it was never sent")
        if self._client is None:
            transport = httpx.AsyncHTTPTransport(
                uds=str(self._socket), limits=httpx.Limits(max_connections=None)
            )
            # Envoy bounds the call itself, by the Backend's time limits.
            self._client = httpx.AsyncClient(
                transport=transport, timeout=httpx.Timeout(None, connect=CONNECT_S), trust_env=False
            )
        target = forward.path or (f"{head.path}?{head.query}" if head.query else head.path)
        sent = {
            name: value
            for name, value in head.headers.items()
            if not name.startswith(":") and name not in _OF_THE_HOP and name not in forward.remove
        }
        sent[names.ROUTE] = forward.route
        body = forward.body if forward.body is not None else exchange.body
        request = self._client.build_request("POST", f"http://outrigger{target}", headers=sent, content=body)
        try:
            response = await self._client.send(request, stream=True)
        except httpx.HTTPError as error:
            raise CallFailed(f"no answer ({type(error).__name__})") from None
        try:
            yield _Reply(response)
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close every connection."""
        if self._client is not None:
            await self._client.aclose()
