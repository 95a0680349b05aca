"""One attempt to tell a webhook: a POST within bounds. No redirect is followed, no answer is read.

Private addresses are allowed: whoever may apply a Release may name them, as for Backends.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import Final

import httpcore

from control_plane.bulletins.courier import NotTakenError
from control_plane.bulletins.secret_values import SecretUnknownError, secret_value
from control_plane.bulletins.signing import headers_of
from control_plane.registry.ports import Bulletin
from control_plane.resources.kinds.release import Webhook
from control_plane.trust import outgoing_tls

TIMEOUT_S: Final = 10.0
GONE: Final = 410


class Post:
    """Sends signed bulletins.

    Args:
        stored: returns the stored secrets by name and key.
        environment: where secrets may be, too.
        time_s: the time of day, in seconds since the epoch.
    """

    def __init__(
        self,
        stored: Callable[[], Mapping[tuple[str, str], bytes]],
        environment: Mapping[str, str],
        time_s: Callable[[], float],
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._stored = stored
        self._environment = environment
        self._time_s = time_s
        self._timeout_s = timeout_s
        self._tls: ssl.SSLContext | None = None

    async def send(self, bulletin: Bulletin, webhook: Webhook) -> None:
        """Make one attempt.

        Raises:
            NotTakenError: no answer in time, another status than 2xx, or no secret to sign with.
        """
        body = bulletin.body.encode()
        signed = headers_of(bulletin.id, int(self._time_s()), body, await self._secret(webhook))
        headers = {"content-type": "application/json", "user-agent": "outrigger", **signed}
        try:
            async with asyncio.timeout(self._timeout_s):
                status = await self._post(webhook.url, headers, body)
        except TimeoutError:
            raise NotTakenError("no answer in time") from None
        except (httpcore.NetworkError, httpcore.TimeoutException):
            raise NotTakenError("it cannot be reached") from None
        except (httpcore.ProtocolError, httpcore.UnsupportedProtocol, OSError, ValueError):
            raise NotTakenError("it does not speak HTTP") from None
        if not 200 <= status < 300:
            raise NotTakenError(f"it answered with {status}", for_good=status == GONE)

    async def _secret(self, webhook: Webhook) -> bytes | None:
        if webhook.secret is None:
            return None
        try:
            # A file may be on a disk that hangs.
            async with asyncio.timeout(self._timeout_s):
                return await asyncio.to_thread(
                    secret_value, webhook.secret, self._environment, self._stored()
                )
        except TimeoutError:
            raise NotTakenError("its secret cannot be read in time") from None
        except SecretUnknownError as unknown:
            raise NotTakenError(str(unknown)) from None

    async def _post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        if self._tls is None:
            self._tls = outgoing_tls()
        sent = [(name.encode(), value.encode()) for name, value in headers.items()]
        async with (
            httpcore.AsyncConnectionPool(ssl_context=self._tls, max_connections=1) as pool,
            pool.stream("POST", url, headers=sent, content=body) as answer,
        ):
            return int(answer.status)
