"""What the provider saw: connections, requests and how they ended; for tests and users to look at.

Credentials are kept as a short digest, enough to tell two keys apart and to recognise a known one.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from control_plane.tools.provider.timing import Clock
from control_plane.tools.provider.wire.messages import Headers, Request

SECRET_HEADERS = frozenset({"authorization", "api-key", "x-api-key", "cookie", "proxy-authorization"})
DIGEST_LENGTH = 12


@dataclass(slots=True)
class ConnectionSeen:
    """One accepted connection. `opened` is Unix seconds; `http_version` is empty until its first bytes."""

    id: int
    client: str
    opened: float
    tls: bool
    http_version: str = ""
    requests: int = 0
    observer: bool = False


@dataclass(slots=True)
class RequestSeen:
    """One request as it came and as it ended. Times are Unix seconds; `status` 0 is none sent.

    `aborted` means that the answer did not end as intended: the caller left, or the script broke it off.
    `scripted` marks an answer of a behaviour. `body` is the beginning of the body, if bodies are kept.
    """

    method: str
    path: str
    query: str
    model: str | None
    headers: Headers
    stream: bool
    started: float
    connection: int
    http_version: str
    body_bytes: int
    body: str | None = None
    body_sha256: str | None = None
    ended: float | None = None
    status: int = 0
    aborted: bool = False
    scripted: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return all fields, the headers as a list of pairs."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class _Wish:
    holds: Callable[[Observations], bool]
    granted: asyncio.Future[None]


@dataclass(slots=True)
class Observations:
    """Counters since the start or the last reset, and the last requests.

    `tls_failures` counts connections whose TLS handshake failed.
    """

    clock: Clock
    log_size: int
    body_bytes: int
    requests: Counter[str] = field(default_factory=Counter)
    opened: int = 0
    aborted: int = 0
    in_flight: int = 0
    tls_failures: int = 0
    open_connections: dict[int, ConnectionSeen] = field(default_factory=dict)
    log: deque[RequestSeen] = field(default_factory=deque)
    _connections: int = 0
    _wishes: list[_Wish] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log = deque(maxlen=self.log_size)

    def connected(self, client: str, *, tls: bool) -> ConnectionSeen:
        """Note a new connection."""
        self._connections += 1
        self.opened += 1
        seen = ConnectionSeen(self._connections, client, self.clock.wall(), tls)
        self.open_connections[seen.id] = seen
        self._changed()
        return seen

    def disconnected(self, seen: ConnectionSeen) -> None:
        """Note that a connection is gone."""
        self.open_connections.pop(seen.id, None)
        self._changed()

    def handshake_failed(self) -> None:
        """Note a connection that never got through its TLS handshake."""
        self.tls_failures += 1
        self._changed()

    def observed_by(self, connection: int) -> None:
        """Leave out a connection that only looks at the observations: it is no caller's."""
        seen = self.open_connections.get(connection)
        if seen is not None and not seen.requests and not seen.observer:
            seen.observer = True
            self.opened -= 1

    def begin(self, request: Request, model: str | None, *, stream: bool) -> RequestSeen:
        """Note a request that has come in whole."""
        seen = RequestSeen(
            method=request.method,
            path=request.path,
            query=request.query,
            model=model,
            headers=tuple(_redacted(name, value) for name, value in request.headers),
            stream=stream,
            started=self.clock.wall(),
            connection=request.connection,
            http_version=request.http_version,
            body_bytes=len(request.body),
        )
        if self.body_bytes:
            seen.body = request.body[: self.body_bytes].decode(errors="replace")
            seen.body_sha256 = hashlib.sha256(request.body).hexdigest()
        connection = self.open_connections.get(request.connection)
        if connection is not None:
            connection.requests += 1
            if connection.observer:
                connection.observer = False
                self.opened += 1
        self.requests[request.path] += 1
        self.in_flight += 1
        self.log.append(seen)
        self._changed()
        return seen

    def end(self, seen: RequestSeen, status: int, *, aborted: bool) -> None:
        """Note how a request ended."""
        seen.ended = self.clock.wall()
        seen.status = status
        seen.aborted = aborted
        self.in_flight -= 1
        self.aborted += aborted
        self._changed()

    def reset(self) -> None:
        """Forget counters and log; connections that are open stay known, and count as opened."""
        self.requests.clear()
        self.log.clear()
        self.aborted = self.tls_failures = 0
        self.opened = len(self._callers())
        self._changed()

    async def until(self, holds: Callable[[Observations], bool]) -> None:
        """Return as soon as `holds(self)` is true; bound it with `asyncio.timeout`."""
        if holds(self):
            return
        wish = _Wish(holds, asyncio.get_running_loop().create_future())
        self._wishes.append(wish)
        try:
            await wish.granted
        finally:
            self._wishes.remove(wish)

    def as_json(self) -> dict[str, Any]:
        """Return what `GET /_provider/stats` answers."""
        callers = self._callers()
        return {
            "requests": dict(self.requests),
            "connections": {
                "opened": self.opened,
                "now": len(callers),
                "tls_failures": self.tls_failures,
                "list": [
                    {
                        "id": seen.id,
                        "client": seen.client,
                        "opened": seen.opened,
                        "tls": seen.tls,
                        "http_version": seen.http_version,
                        "requests": seen.requests,
                    }
                    for seen in callers
                ],
            },
            "aborted": self.aborted,
            "in_flight": self.in_flight,
            "log": [seen.as_json() for seen in self.log],
        }

    def _callers(self) -> list[ConnectionSeen]:
        return [seen for seen in self.open_connections.values() if not seen.observer]

    def _changed(self) -> None:
        for wish in self._wishes:
            if not wish.granted.done() and wish.holds(self):
                wish.granted.set_result(None)


def _redacted(name: str, value: str) -> tuple[str, str]:
    if name.lower() not in SECRET_HEADERS:
        return name, value
    return name, f"sha256:{hashlib.sha256(value.encode()).hexdigest()[:DIGEST_LENGTH]}"
