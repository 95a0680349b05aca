"""`/metrics` of the API's port, for Prometheus: requests, the revision, the sidecars, the database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from control_plane.api.ports import DocumentBook, Fleet

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class ApiMetrics:
    """Counts what the API answers, and shows the state of what is behind it when it is asked.

    Labels are closed sets: path templates, methods, status codes.

    Args:
        more: what others show here too (the push stream's own series).
    """

    def __init__(self, book: DocumentBook, fleet: Fleet, more: Iterable[Collector] = ()) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._requests = Counter(
            "outrigger_api_requests",
            "Requests to the API.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "outrigger_api_request_duration_seconds",
            "Time to the end of the answer.",
            ("method", "route"),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._registry.register(_State(book, fleet))
        for collector in more:
            self._registry.register(collector)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answer."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def render(self) -> bytes:
        """Return every series as text."""
        return generate_latest(self._registry)


def metrics_application(metrics: ApiMetrics) -> ASGIApp:
    """Return an application that answers `/metrics` to anybody: for a port that only Prometheus reaches."""

    async def answer(_: Request) -> Response:
        return Response(metrics.render(), media_type=CONTENT_TYPE)

    return Starlette(routes=[Route("/metrics", answer)])


class _State(Collector):
    """What is the case now, asked when it is scraped."""

    def __init__(self, book: DocumentBook, fleet: Fleet) -> None:
        self._book = book
        self._fleet = fleet

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges."""
        yield GaugeMetricFamily(
            "outrigger_revision", "The newest revision, halted or not.", self._book.head.revision
        )
        yield GaugeMetricFamily(
            "outrigger_revision_in_force",
            "The newest revision that is not halted.",
            self._book.in_force.revision,
        )
        kinds: dict[str, int] = {}
        for kind, _ in self._book.head.stored:
            kinds[kind] = kinds.get(kind, 0) + 1
        documents = GaugeMetricFamily("outrigger_documents", "Documents by kind.", labels=("kind",))
        for kind, count in kinds.items():
            documents.add_metric((kind,), count)
        yield documents
        yield GaugeMetricFamily(
            "outrigger_database_up", "1 while the database answers.", float(self._book.status().reachable)
        )
        sidecars = [sidecar for sidecar in self._fleet.sidecars() if sidecar.connected]
        states = GaugeMetricFamily(
            "outrigger_sidecars",
            "Connected sidecars: in_force serve the current policy, refused said no to it, behind neither.",
            labels=("state",),
        )
        refused = sum(sidecar.nack is not None for sidecar in sidecars)
        in_force = sum(sidecar.in_force and sidecar.nack is None for sidecar in sidecars)
        states.add_metric(("in_force",), in_force)
        states.add_metric(("refused",), refused)
        states.add_metric(("behind",), len(sidecars) - in_force - refused)
        yield states
