"""How the mesh does now: as JSON, and told once a second as server-sent events.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from fastapi import FastAPI, Request
from starlette.responses import Response, StreamingResponse

from control_plane.api.errors import RefusedRequestError
from control_plane.api.operations import JSON, Answer, Operation, add, schema_ref
from control_plane.api.ports import DocumentBook, Fleet
from control_plane.api.wire import fields_of, to_json
from control_plane.auth.roles import Need, Role
from control_plane.dashboard.views import Flow
from control_plane.resources.plurals import KIND_OF

EVENTS: Final = "text/event-stream"
EVERY_S: Final = 1.0
# Looking at thousands of sidecars takes tens of milliseconds.
COUNTED_EVERY_S: Final = 2.0
# Then the browser asks again by itself, and whoever may look no more is not let in.
LONGEST_S: Final = 120
MAX_WATCHING: Final = 200
_RETRY_MS: Final = 500


class Flowing(Protocol):
    """Knows what goes through the mesh."""

    def flow(self, *, whole: bool) -> Flow:
        """Return how it goes; `whole`: with every step that is kept."""


class Telling(Fleet, Protocol):
    """Sidecars that tell how they do."""

    def listen(self, listener: Callable[[Any, Any], None]) -> None:
        """Have `listener` told of every report: what was told before, and now."""


@dataclass(slots=True)
class LiveRoutes:
    """`/api/v1/overview` and `/api/v1/live`. `pause` waits so many seconds; `clock` is monotonic."""

    book: DocumentBook
    fleet: Fleet
    traffic: Flowing
    now: Callable[[], datetime]
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    watching: int = 0
    ended: bool = False
    _made: tuple[float, bytes] = field(default=(float("-inf"), b""))
    _counted: tuple[float, dict[str, Any]] = field(default_factory=lambda: (float("-inf"), {}))

    async def overview(self) -> Response:
        """Answer how the mesh does, with its last fifteen minutes."""
        return Response(to_json(self._body(whole=True)), media_type=JSON)

    async def live(self, request: Request) -> Response:
        """Answer a stream of how it does; whoever does not ask for a stream gets the first event alone."""
        if self.watching >= MAX_WATCHING:
            raise RefusedRequestError(503, f"{MAX_WATCHING} others watch already; try again in a moment")
        goes_on = EVENTS in request.headers.get("accept", "")
        return StreamingResponse(
            self._events(goes_on), media_type=EVENTS, headers={"x-accel-buffering": "no"}
        )

    def end(self) -> None:
        """End every stream within a second: the server stops, and waits for those who still listen."""
        self.ended = True

    async def _events(self, goes_on: bool) -> AsyncIterator[bytes]:
        self.watching += 1
        try:
            yield b"retry: %d\n\n" % _RETRY_MS + _event(to_json(self._body(whole=True)))
            for _ in range(LONGEST_S if goes_on else 0):
                await self.pause(EVERY_S)
                if self.ended:
                    return
                yield self._news()
        finally:
            self.watching -= 1

    def _news(self) -> bytes:
        """Return the event of this moment, made once for all who watch."""
        made_s, event = self._made
        if self.clock() - made_s >= EVERY_S / 2:
            event = _event(to_json(self._body(whole=False)))
            self._made = (self.clock(), event)
        return event

    def _body(self, *, whole: bool) -> dict[str, Any]:
        return {
            "at": self.now(),
            "fleet": self._fleet(),
            "documents": self._documents(),
            **fields_of(self.traffic.flow(whole=whole)),
        }

    def _fleet(self) -> dict[str, Any]:
        counted_s, counts = self._counted
        if self.clock() - counted_s >= COUNTED_EVERY_S:
            counts = self._count()
            self._counted = (self.clock(), counts)
        head, in_force = self.book.head, self.book.in_force
        return {
            **counts,
            "revision": head.revision,
            "revisionInForce": in_force.revision,
            "database": self.book.status().reachable,
        }

    def _count(self) -> dict[str, int]:
        sidecars = self.fleet.sidecars()
        connected = [sidecar for sidecar in sidecars if sidecar.connected]
        return {
            "known": len(sidecars),
            "connected": len(connected),
            "inForce": sum(sidecar.in_force for sidecar in connected),
            "refused": sum(sidecar.nack is not None for sidecar in connected),
        }

    def _documents(self) -> dict[str, int]:
        kinds = Counter(kind for kind, _ in self.book.head.stored)
        return {plural: kinds[kind] for plural, kind in KIND_OF.items()}


def _event(data: bytes) -> bytes:
    return b"event: overview\ndata: " + data + b"\n\n"


def add_live_routes(
    app: FastAPI, book: DocumentBook, fleet: Fleet, traffic: Flowing, now: Callable[[], datetime]
) -> None:
    """Serve how the mesh does. `app.state.end_streams` ends the streams."""
    routes = LiveRoutes(book, fleet, traffic, now)
    app.state.end_streams = routes.end
    schema, need, tag = schema_ref("Overview"), Need(Role.VIEWER, "sidecars:read"), "mesh"
    add(
        app,
        Operation(
            "GET",
            "/api/v1/overview",
            tag,
            "Read how the mesh does",
            need,
            {200: Answer("Rates now, and the last fifteen minutes.", schema, EXAMPLE)},
            "From what the sidecars of all replicas tell every five seconds. Rates are per second, over the "
            "last fifteen seconds; quantiles are of the last one to two minutes. `models` are calls that "
            "went to a provider, `tiers` every request. Money is in the currency of the Models' `prices`.",
        ),
        routes.overview,
    )
    add(
        app,
        Operation(
            "GET",
            "/api/v1/live",
            tag,
            "Watch how the mesh does",
            need,
            {200: Answer("Events named `overview`.", {"type": "string"}, TOLD, media_type=EVENTS)},
            "Once a second what `/api/v1/overview` answers; after the first, `series` holds the last few "
            "steps. The stream ends after two minutes, and a browser opens it again. Without `Accept: "
            "text/event-stream` it ends after the first event.",
        ),
        routes.live,
    )


TOLD: Final = 'event: overview\ndata: {"whole": true}\n\n'
_TIMES: Final = {"p50": 640.0, "p95": 1210.0}
EXAMPLE: Final[dict[str, Any]] = {
    "at": "2026-01-31T08:00:00Z",
    "fleet": {
        "known": 3,
        "connected": 3,
        "inForce": 3,
        "refused": 0,
        "revision": 12,
        "revisionInForce": 12,
        "database": True,
    },
    "documents": {"backends": 1, "models": 2},
    "whole": True,
    "rates": {"requests": 42.0, "calls": 30.0, "hits": 12.0, "failed": 0.1},
    "sums": {"requests": 37000, "calls": 26000, "failed": 90, "hits": 11000, "savedCost": 1.91},
    "latency": _TIMES,
    "ttft": {"p50": 210.0, "p95": 480.0},
    "series": {"end": 4711, "stepSeconds": 5.0, "requests": [41.0, 42.0], "latencyP95": [1200.0, None]},
    "models": [
        {"model": "gpt-4o-mini", "version": "stable", "calls": 30.0, "errors": 0.003, "latency": _TIMES}
    ],
    "tiers": [{"tier": "gold", "requests": 12.0, "limited": 0.0, "failed": 0.0, "tokens": 9000.0}],
}
