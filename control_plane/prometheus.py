"""One value from Prometheus: an instant query, within bounds. https://prometheus.io/docs/prometheus/latest/querying/api/"""

from __future__ import annotations

import asyncio
import json
import math
from typing import Final
from urllib.parse import urlencode

import httpcore

from control_plane.releases.asking import UnknownValueError
from control_plane.trust import outgoing_tls

TIMEOUT_S: Final = 4.0
MAX_BYTES: Final = 1024 * 1024


class Prometheus:
    """A Prometheus server, or whatever answers as one, at `url`."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        self._url = f"{url.rstrip('/')}/api/v1/query"
        self._timeout_s = timeout_s
        tls = outgoing_tls() if self._url.startswith("https:") else None
        self._pool = httpcore.AsyncConnectionPool(ssl_context=tls, max_connections=8, keepalive_expiry=15.0)

    async def value(self, query: str) -> float:
        """Return what `query` comes to: a scalar, or a vector of exactly one sample.

        Raises:
            UnknownValueError: no answer in time, none, several or no number.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                status, body = await self._asked(query)
        except TimeoutError:
            raise UnknownValueError("Prometheus did not answer in time") from None
        except (httpcore.NetworkError, httpcore.TimeoutException):
            raise UnknownValueError("Prometheus cannot be reached") from None
        except (httpcore.ProtocolError, httpcore.UnsupportedProtocol, OSError, ValueError):
            raise UnknownValueError("Prometheus does not speak HTTP") from None
        if status != 200:
            raise UnknownValueError(f"Prometheus answered with {status}")
        return value_in(body)

    async def _asked(self, query: str) -> tuple[int, bytes]:
        async with self._pool.stream(
            "POST",
            self._url,
            headers=[
                (b"content-type", b"application/x-www-form-urlencoded"),
                (b"accept", b"application/json"),
            ],
            content=urlencode({"query": query}).encode(),
        ) as answer:
            body = b""
            async for piece in answer.aiter_stream():
                body += piece
                if len(body) > MAX_BYTES:
                    raise UnknownValueError("Prometheus gave too much")
            return int(answer.status), body


def value_in(body: bytes) -> float:
    """Return the one number in an answer.

    Raises:
        UnknownValueError: there is none, or several.
    """
    try:
        data = json.loads(body)["data"]
        is_scalar = data["resultType"] == "scalar"
        found = [data["result"]] if is_scalar else [sample["value"] for sample in data["result"]]
        values = [float(number) for _, number in found]
    except (ValueError, KeyError, TypeError, IndexError):
        raise UnknownValueError("Prometheus gave no number") from None
    if not values:
        raise UnknownValueError("the query finds nothing")
    if len(values) > 1:
        raise UnknownValueError("the query finds more than one value")
    if not math.isfinite(values[0]):
        raise UnknownValueError("the query comes to no finite number")
    return values[0]
