"""The application: every route behind the door, every error a problem, every answer counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from fastapi import FastAPI
from prometheus_client.registry import Collector
from structlog.typing import FilteringBoundLogger

from control_plane.api import door, login
from control_plane.api.apply import add_apply_route
from control_plane.api.bodies import Bodies
from control_plane.api.cache import add_cache_routes
from control_plane.api.dashboard import add_dashboard
from control_plane.api.documents import add_document_routes
from control_plane.api.front import Front
from control_plane.api.guard import GuardedRoute, RecordRefusal
from control_plane.api.keys import add_key_routes
from control_plane.api.limits import add_limit_routes
from control_plane.api.live import Telling, add_live_routes
from control_plane.api.mesh import add_mesh_routes
from control_plane.api.metrics import ApiMetrics
from control_plane.api.mirror import add_mirror_routes
from control_plane.api.openapi import describer
from control_plane.api.playground import Proxy, add_playground_routes
from control_plane.api.ports import Caches, Fleet, Registry, Surroundings
from control_plane.api.probes import add_probe_routes
from control_plane.api.problems import add_problem_handlers
from control_plane.api.reference import add_reference_routes
from control_plane.api.releases import add_release_routes, status_json
from control_plane.api.revisions import add_revision_routes
from control_plane.api.secrets import add_secret_routes
from control_plane.api.tokens import add_token_routes
from control_plane.api.wrong_tokens import TellingGate
from control_plane.dashboard.traffic import Traffic
from control_plane.dashboard.uses import UsesEverywhere
from control_plane.registry.errors import StorageFullError, StoreUnavailableError
from control_plane.registry.values import Actor


class Sessions(door.Sessions, login.Sessions, Protocol):
    """Knows and keeps the browsers that are logged in."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What the application is made of.

    Attributes:
        registry: documents, keys, secrets, tokens.
        fleet: the sidecars.
        gate: tells who shows a token.
        sessions: the browsers that are logged in.
        surroundings: time of day and randomness.
        log: where wrong tokens are told, and refusals that the audit cannot take.
        caches: what the sidecars keep.
        here: the sidecars of this replica alone, where `fleet` has those of all; None for the same.
        proxy: whom the playground asks, None for no playground.
        series: metrics of others that `/metrics` shows too.
        clock: a monotonic clock, in seconds.
    """

    registry: Registry
    fleet: Telling
    gate: door.Gate
    sessions: Sessions
    surroundings: Surroundings
    log: FilteringBoundLogger
    caches: Caches
    proxy: Proxy | None = None
    here: Fleet | None = None
    series: Iterable[Collector] = ()
    clock: Callable[[], float] = time.perf_counter


def create_application(parts: Parts, *, version: str, min_ready_sidecars: int) -> FastAPI:
    """Return the API. It is ready once `min_ready_sidecars` serve what is in force."""
    app = FastAPI(
        title="Outrigger",
        version=version,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.router.route_class = GuardedRoute
    app.state.record_refusal = _recorder(parts)
    here = parts.here or parts.fleet
    # Prometheus adds up what replicas tell, and each is ready by itself.
    metrics = app.state.metrics = ApiMetrics(parts.registry, here, parts.series)
    bodies = Bodies()
    gate = TellingGate(parts.gate, parts.log, parts.clock)
    add_problem_handlers(app)
    add_probe_routes(app, parts.registry, here, metrics, min_ready_sidecars)
    add_apply_route(app, parts.registry, bodies)
    add_key_routes(app, parts.registry, bodies)
    add_document_routes(
        app, parts.registry, bodies, {"Release": lambda name: status_json(parts.registry, name)}
    )
    add_mirror_routes(app, parts.registry, parts.fleet, bodies)
    add_release_routes(app, parts.registry)
    add_revision_routes(app, parts.registry)
    add_mesh_routes(app, parts.registry, parts.fleet)
    traffic = Traffic(time.monotonic)
    parts.fleet.listen(traffic.told)
    uses = UsesEverywhere()
    parts.fleet.listen(uses.told)
    add_limit_routes(app, uses)
    add_live_routes(app, parts.registry, parts.fleet, traffic, parts.surroundings.now)
    add_cache_routes(app, parts.registry, parts.fleet, parts.caches, bodies)
    add_playground_routes(app, parts.registry, bodies, parts.proxy, parts.surroundings)
    add_token_routes(app, parts.registry, bodies, parts.surroundings)
    add_secret_routes(app, parts.registry, bodies)
    add_dashboard(app)
    login.add_login_routes(app, gate, parts.sessions)
    add_reference_routes(app, describer(app))
    # The middleware added last is the outermost.
    app.add_middleware(door.Door, gate=gate, sessions=parts.sessions, login_page=login.asks_to_log_in)
    app.add_middleware(Front, observer=metrics, clock=parts.clock)
    return app


def _recorder(parts: Parts) -> RecordRefusal:
    async def record(actor: Actor, action: str, target: str, detail: str) -> None:
        try:
            await parts.registry.record(actor, action, target, outcome="forbidden", detail=detail)
        except (StoreUnavailableError, StorageFullError) as error:
            parts.log.warning(
                "a refusal is not in the audit", actor=actor.name, action=action, target=target, error=error
            )

    return record
