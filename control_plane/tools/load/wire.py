"""HTTP for the load generator: one call out, one outcome back, never an exception for a failed call."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext, create_default_context
from typing import Protocol

import aiohttp

from control_plane.tools.load.calls import Call
from control_plane.tools.load.sse import StreamReader
from control_plane.tools.load.verdicts import BROKEN, CONNECT, TIMEOUT, Verdict, failed, judged

CONNECT_TIMEOUT_S = 10.0
# What a server says goes into reports: only what ours would say.
_WORD = re.compile(r"[a-z-]{1,20}")
_COUNT = re.compile(r"[0-9]{1,6}")


class CannotConnect(Exception):
    """No call can be made at all; the message says why."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a call. Moments are `time.perf_counter()`.

    `first` is when the first text of a stream came; `gaps` are the seconds between its pieces; `cache` and
    `batch` are what a sidecar says (`x-outrigger-cache`, `x-outrigger-batch`), "" and 0 elsewhere.
    """

    verdict: Verdict
    began: float
    ended: float
    first: float | None = None
    gaps: tuple[float, ...] = ()
    cache: str = ""
    batch: int = 0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where calls go: base URL, headers (they hold keys, so no report and no repr has them), time limit."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 60.0
    ca: Path | None = None


class Send(Protocol):
    """Sends one call."""

    async def __call__(self, call: Call) -> Outcome:
        """Return what became of it."""


@asynccontextmanager
async def connected(endpoint: Endpoint) -> AsyncIterator[Send]:
    """Yield what sends calls over kept-alive HTTP/1.1 connections, as many as there are calls at once.

    No proxy of the environment, no cookies, no redirects, no retries: what is measured is the server.

    Raises:
        CannotConnect: the authority's file cannot be read.
    """
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=trusted(endpoint), keepalive_timeout=60),
        timeout=aiohttp.ClientTimeout(total=endpoint.timeout_s, connect=CONNECT_TIMEOUT_S),
        headers={"content-type": "application/json", "user-agent": "outrigger-bench", **endpoint.headers},
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=1 << 18,
    ) as session:
        yield _Wire(session, endpoint.url)


def trusted(endpoint: Endpoint) -> SSLContext | bool:
    """Return how the target's certificate is verified.

    Raises:
        CannotConnect: the authority's file cannot be read.
    """
    if not endpoint.url.startswith("https:"):
        return True
    try:
        return create_default_context(cafile=endpoint.ca)
    except OSError:  # SSLError is one
        raise CannotConnect(f"the file {endpoint.ca} holds no certificate; give a PEM file") from None


class _Wire:
    """Sends calls on one session."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def __call__(self, call: Call) -> Outcome:
        """Send `call` and read its answer to the end."""
        began = time.perf_counter()
        try:
            async with self._session.post(
                f"{self._url}/{call.operation.path}", data=call.content, allow_redirects=False
            ) as reply:
                return await _read(call, reply, began)
        except TimeoutError:
            reason = TIMEOUT
        except aiohttp.ClientConnectorError:
            reason = CONNECT
        except (aiohttp.ClientError, OSError, ValueError):
            reason = BROKEN
        return Outcome(failed(reason), began, time.perf_counter())


async def _read(call: Call, reply: aiohttp.ClientResponse, began: float) -> Outcome:
    cache = reply.headers.get("x-outrigger-cache", "")
    cache = cache if _WORD.fullmatch(cache) else ""
    size = reply.headers.get("x-outrigger-batch", "")
    batch = int(size) if _COUNT.fullmatch(size) else 0
    if call.stream and reply.status == 200:
        stream = StreamReader()
        async for data in reply.content.iter_any():
            stream.feed(data, time.perf_counter())
        ended = time.perf_counter()
        return Outcome(stream.verdict(), began, ended, stream.first, tuple(stream.gaps), cache, batch)
    body = await reply.read()
    ended = time.perf_counter()
    return Outcome(judged(call, reply.status, body), began, ended, None, (), cache, batch)
