"""`/healthz` and `/readyz`, open to everybody, and `/metrics`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from fastapi import FastAPI
from starlette.responses import Response

from control_plane.api.metrics import CONTENT_TYPE
from control_plane.api.operations import JSON, Answer, Operation, add, schema_ref
from control_plane.api.ports import DocumentBook, Fleet
from control_plane.api.readiness import readiness
from control_plane.api.wire import to_json
from control_plane.auth.roles import Need, Role


class Rendering(Protocol):
    """Shows metrics."""

    def render(self) -> bytes:
        """Return every series as text."""


@dataclass(frozen=True, slots=True)
class ProbeRoutes:
    """Health, readiness, metrics."""

    book: DocumentBook
    fleet: Fleet
    metrics: Rendering
    min_ready_sidecars: int

    async def healthz(self) -> Response:
        """Say that the process answers."""
        return Response(to_json({"status": "ok"}), media_type=JSON)

    async def readyz(self) -> Response:
        """Say whether the sidecars serve what is in force, and if not, why.

        A database that is away does not count: what is in memory is read and pushed on without it.
        """
        found = readiness(self.fleet.sidecars(), self.min_ready_sidecars)
        body: dict[str, Any] = {
            "status": "ready" if found.ready else "not ready",
            "sidecars": found.sidecars,
            "database": "ok" if self.book.status().reachable else "unavailable",
        }
        if found.ready:
            return Response(to_json(body), media_type=JSON)
        return Response(to_json({**body, "reason": found.reason}), 503, media_type=JSON)

    async def show_metrics(self) -> Response:
        """Answer every series."""
        return Response(self.metrics.render(), 200, {"content-type": CONTENT_TYPE})


def add_probe_routes(
    app: FastAPI, book: DocumentBook, fleet: Fleet, metrics: Rendering, min_ready_sidecars: int
) -> None:
    """Serve health, readiness and metrics."""
    routes = ProbeRoutes(book, fleet, metrics, min_ready_sidecars)
    tag, anybody = "health", Need(Role.SIDECAR)
    ready = {"status": "ready", "sidecars": 1, "database": "ok"}
    waiting = {**ready, "status": "not ready", "sidecars": 0, "reason": "0 of 1 sidecars connected"}
    schema = schema_ref("Readiness")
    health = Answer("It does.", schema_ref("Health"), {"status": "ok"})
    add(
        app,
        Operation("GET", "/healthz", tag, "Say that the process answers", anybody, {200: health}),
        routes.healthz,
    )
    add(
        app,
        Operation(
            "GET",
            "/readyz",
            tag,
            "Say whether the mesh is ready",
            anybody,
            {
                200: Answer("It is.", schema, ready),
                503: Answer("`reason` says what is missing.", schema, waiting),
            },
        ),
        routes.readyz,
    )
    add(
        app,
        Operation(
            "GET",
            "/metrics",
            tag,
            "Read metrics",
            Need(Role.VIEWER, "metrics:read"),
            {200: Answer("Prometheus' text format.", {"type": "string"}, media_type="text/plain")},
        ),
        routes.show_metrics,
    )
