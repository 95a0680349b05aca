"""Calls to processes on this machine, plain HTTP: for a launcher that stays, httpx is 5 MB too many.

A proxy that the environment names is not for them. https://docs.python.org/3/library/http.client.html
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit


class LocalCallError(Exception):
    """Nobody answered in time, or not in HTTP."""


@dataclass(frozen=True, slots=True)
class LocalAnswer:
    """What was answered."""

    status: int
    body: bytes


async def call(method: str, url: str, timeout_s: float) -> LocalAnswer:
    """Return the answer of `method` on `url`; each wait for the other side is at most `timeout_s`.

    Raises:
        LocalCallError: there is none.
    """
    return await asyncio.to_thread(_call, method, url, timeout_s)


def _call(method: str, url: str, timeout_s: float) -> LocalAnswer:
    parts = urlsplit(url)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        connection.request(method, target)
        answer = connection.getresponse()
        return LocalAnswer(answer.status, answer.read())
    except (OSError, HTTPException) as error:
        raise LocalCallError(f"{method} {url}: {type(error).__name__}") from error
    finally:
        connection.close()
