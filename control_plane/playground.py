"""The way from the playground to a proxy: one call, its answer piece by piece, within bounds.

Neither what is asked nor what is answered is kept or logged here.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Final
from urllib.parse import urlsplit

import httpcore

from control_plane.api.playground import Answered, ProxyUnreachableError

CONNECT_TIMEOUT_S: Final = 5.0
SILENCE_TIMEOUT_S: Final = 120.0
"""Beyond every time limit that a proxy has by default."""
_PATH: Final = "/v1/chat/completions"


def origin_of(url: str) -> str:
    """Return the scheme, host and port of a proxy's URL; `/v1` at its end is left away.

    Raises:
        ValueError: it is no such URL; the message does not quote it.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be a URL such as http://127.0.0.1:10000")
    if (
        parts.username is not None
        or parts.query
        or parts.fragment
        or parts.path.rstrip("/") not in ("", "/v1")
    ):
        raise ValueError("must be scheme, host and port only")
    return f"{parts.scheme}://{parts.netloc}"


class HttpProxy:
    """The proxy at `url` (`origin_of` makes one). Connections are opened as they are needed."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._pool = httpcore.AsyncConnectionPool(max_connections=16, keepalive_expiry=5.0)

    @contextlib.asynccontextmanager
    async def ask(self, headers: Sequence[tuple[str, str]], body: bytes) -> AsyncIterator[Answered]:
        """Send a chat completion and yield its answer.

        Raises:
            ProxyUnreachableError: it does not answer, or breaks off; the message says which.
        """
        wait = {"connect": CONNECT_TIMEOUT_S, "pool": CONNECT_TIMEOUT_S}
        wait |= {"read": SILENCE_TIMEOUT_S, "write": SILENCE_TIMEOUT_S}
        try:
            async with self._pool.stream(
                "POST",
                self.url + _PATH,
                headers=[(name.encode(), value.encode()) for name, value in headers],
                content=body,
                extensions={"timeout": wait},
            ) as found:
                shown = [
                    (name.decode("latin-1").lower(), text.decode("latin-1")) for name, text in found.headers
                ]
                yield Answered(found.status, shown, found.aiter_stream())
        except (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.PoolTimeout):
            raise ProxyUnreachableError("the proxy cannot be reached") from None
        except httpcore.TimeoutException:
            raise ProxyUnreachableError("the proxy is silent") from None
        except (httpcore.NetworkError, httpcore.ProtocolError):
            raise ProxyUnreachableError("the proxy broke off") from None
