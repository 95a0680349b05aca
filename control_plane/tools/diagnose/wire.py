"""One call over a connection whose age is known, and the time of each of its phases.

`httpcore` is used without `httpx` above it: it tells when a connection was opened and by which request. The
name is looked up here, once a connection, so that DNS and TCP have times of their own. A proxy of the
environment is never used: the way to the server is what is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import httpcore
import orjson

from control_plane.tools.diagnose.failures import DiagnoseFailed, refused, stranger, unknown_host, unreachable
from control_plane.tools.diagnose.sample import Sample
from control_plane.tools.diagnose.target import Target
from control_plane.tools.load.calls import Operation
from control_plane.tools.load.sse import StreamReader
from control_plane.tools.load.verdicts import used

CONNECT_TIMEOUT_S: Final = 5.0
MOST_BYTES: Final = 4 * 1024 * 1024  # of one answer; what is asked for is far below

Http = Literal["1.1", "2"]
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Connections:
    """A pool of connections to one address of the target, opened when a call needs one."""

    pool: httpcore.AsyncConnectionPool
    address: str
    dns_ms: float | None


class Wire:
    """Calls to one target.

    Args:
        target: where calls go.
        timeout_s: for an answer.
        ca: PEM file of authorities that the server's certificate is verified against.
        clock: seconds that only grow.

    Raises:
        DiagnoseFailed: the PEM file cannot be used.
    """

    def __init__(
        self, target: Target, timeout_s: float, ca: Path | None = None, clock: Clock = time.perf_counter
    ) -> None:
        self._target = target
        self._timeout_s = timeout_s
        self._clock = clock
        self._address = ""
        self._tls = _trusting(ca) if target.tls else None
        self._headers = [
            (b"Host", target.authority.encode()),
            (b"Content-Type", b"application/json"),
            (b"Accept-Encoding", b"identity"),
            (b"User-Agent", b"outrigger-diagnose"),
            # Through a sidecar: nothing made up here takes the place of real answers in its cache.
            (b"x-outrigger-cache", b"no-store"),
        ]
        self._headers += [(name.encode(), value.encode()) for name, value in target.headers.items()]

    @contextlib.asynccontextmanager
    async def connections(self, http: Http = "1.1", most: int = 1) -> AsyncIterator[Connections]:
        """Yield a pool that has no connection yet and opens at most `most`.

        Raises:
            CallFailed: the target's name is not known.
        """
        address, dns_ms = await self._lookup()
        async with httpcore.AsyncConnectionPool(
            ssl_context=self._tls,
            max_connections=most,
            http1=http == "1.1" or self._target.tls,
            http2=http == "2",
        ) as pool:
            yield Connections(pool, address, dns_ms)

    async def call(self, connections: Connections, body: Mapping[str, Any]) -> Sample:
        """Make one call and read its answer to the end.

        Raises:
            CallFailed: there is no answer, or none that is one.
        """
        opening = _Opening(self._clock)
        request = self._request(connections, body, opening)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._answered(connections, request, opening, body.get("stream") is True)
        except TimeoutError:
            raise unreachable(self._target, httpcore.ReadTimeout(), self._timeout_s) from None
        except (
            httpcore.NetworkError,
            httpcore.ProtocolError,
            httpcore.TimeoutException,
            httpcore.UnsupportedProtocol,
            OSError,
        ) as error:
            raise unreachable(self._target, error, self._timeout_s) from None

    async def _answered(
        self, connections: Connections, request: httpcore.Request, opening: _Opening, stream: bool
    ) -> Sample:
        begun = self._clock()
        response = await connections.pool.handle_async_request(request)
        first = self._clock()
        try:
            reader = StreamReader() if stream and response.status == 200 else None
            content = bytearray()
            async for piece in response.aiter_stream():
                content += piece
                if reader is not None:
                    reader.feed(piece, self._clock())
                if len(content) > MOST_BYTES:
                    break
        finally:
            await response.aclose()
        ended = self._clock()
        headers = {
            name.lower().decode("latin-1"): value.decode("latin-1") for name, value in response.headers
        }
        http2 = response.extensions.get("http_version") == b"HTTP/2"
        sidecar = any(name.startswith("x-outrigger-") for name in headers)
        dns_ms = connections.dns_ms if opening.opened else None
        times = _Times(begun, first, ended, opening, dns_ms, http2, sidecar)
        if reader is not None:
            return self._streamed(times, reader, headers)
        return self._whole(times, response.status, bytes(content), headers)

    def _whole(self, times: _Times, status: int, content: bytes, headers: Mapping[str, str]) -> Sample:
        try:
            document = orjson.loads(content)
        except orjson.JSONDecodeError:
            document = None
        if not 200 <= status < 300:
            raise refused(self._target, status, document, headers.get("retry-after"))
        name = "data" if self._target.operation is Operation.EMBEDDINGS else "choices"
        answers = document.get(name) if isinstance(document, dict) else None
        if not isinstance(answers, list) or not answers or not isinstance(answers[0], dict):
            raise stranger(self._target, headers.get("content-type", ""))
        prompt, output = used(document.get("usage"))
        return times.sample(prompt, output, cut=answers[0].get("finish_reason") == "length")

    def _streamed(self, times: _Times, reader: StreamReader, headers: Mapping[str, str]) -> Sample:
        verdict = reader.verdict()
        if not verdict.good or reader.first is None:
            raise stranger(self._target, headers.get("content-type", ""))
        return times.sample(verdict.prompt_tokens, verdict.completion_tokens, reader=reader)

    def _request(
        self, connections: Connections, body: Mapping[str, Any], opening: _Opening
    ) -> httpcore.Request:
        content = orjson.dumps(body)
        host = f"[{connections.address}]" if ":" in connections.address else connections.address
        return httpcore.Request(
            "POST",
            f"{self._target.scheme}://{host}:{self._target.port}{self._target.endpoint}",
            headers=[*self._headers, (b"Content-Length", str(len(content)).encode())],
            content=content,
            extensions={
                "timeout": {"connect": CONNECT_TIMEOUT_S, "pool": self._timeout_s},
                "trace": opening,
                "sni_hostname": self._target.host,
            },
        )

    async def _lookup(self) -> tuple[str, float | None]:
        """Return an address of the target, and how long looking it up took (None: it is one already)."""
        with contextlib.suppress(ValueError):
            return str(ipaddress.ip_address(self._target.host)), None
        begun = self._clock()
        try:
            found = await asyncio.get_running_loop().getaddrinfo(
                self._target.host, self._target.port, type=socket.SOCK_STREAM
            )
        except (OSError, UnicodeError):
            raise unknown_host(self._target) from None
        took_ms = (self._clock() - begun) * 1000
        if not self._address:
            self._address = await self._reachable([str(address[4][0]) for address in found])
        return self._address, took_ms

    async def _reachable(self, addresses: list[str]) -> str:
        """Return the first address that takes a connection, or the first one: a name may have dead ones."""
        for address in addresses if len(addresses) > 1 else ():
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    _, writer = await asyncio.open_connection(address, self._target.port)
            except (OSError, TimeoutError):
                continue
            writer.close()
            return address
        return addresses[0]


def _trusting(ca: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError):
        raise DiagnoseFailed(f"the file {ca} holds no certificate; name another with --target-ca") from None


class _Opening:
    """Hears from httpcore when a connection is opened for a call (its `trace` extension)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun: dict[str, float] = {}
        self.ms: dict[str, float] = {}

    @property
    def opened(self) -> bool:
        """Whether the call opened its connection."""
        return "connect_tcp" in self.ms

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        """Note an event, such as `connection.start_tls.complete`."""
        layer, _, rest = event.partition(".")
        step, _, state = rest.partition(".")
        if layer != "connection":
            return
        if state == "started":
            self._begun[step] = self._clock()
        elif state == "complete":
            self.ms[step] = (self._clock() - self._begun[step]) * 1000


@dataclass(frozen=True, slots=True)
class _Times:
    """The moments of one call, in seconds of the clock."""

    begun: float
    first: float
    ended: float
    opening: _Opening
    dns_ms: float | None
    http2: bool
    sidecar: bool

    def sample(
        self, prompt: int, output: int, *, cut: bool = False, reader: StreamReader | None = None
    ) -> Sample:
        """Return them as a sample; the lookup happened before the call began and is added."""
        before = self.dns_ms or 0.0
        first_token = reader.first if reader is not None else None
        return Sample(
            ttfb_ms=before + (self.first - self.begun) * 1000,
            total_ms=before + (self.ended - self.begun) * 1000,
            dns_ms=self.dns_ms,
            connect_ms=self.opening.ms.get("connect_tcp"),
            tls_ms=self.opening.ms.get("start_tls"),
            prompt_tokens=prompt,
            output_tokens=output,
            cut=cut,
            http2=self.http2,
            sidecar=self.sidecar,
            first_token_ms=None if first_token is None else before + (first_token - self.begun) * 1000,
            gaps_ms=tuple(gap * 1000 for gap in reader.gaps) if reader is not None else (),
        )
