"""What the API tells Prometheus."""

import httpx
from prometheus_client import CollectorRegistry, Gauge

from control_plane.api.metrics import ApiMetrics, metrics_application
from control_plane.registry.values import Head, StoreStatus
from tests.unit.control_plane.api.sidecars import Shown


class Shelf:
    """A registry with nothing in it."""

    head = Head(7)
    in_force = Head(6)

    def status(self) -> StoreStatus:
        """Say that the database is away."""
        return StoreStatus(reachable=False)


class Fleet:
    """Four sidecars, one of them gone."""

    def sidecars(self) -> list[Shown]:
        """Return them."""
        return [Shown(in_force=True), Shown(nack="x"), Shown(), Shown(connected=False)]


def test_requests_and_state_are_shown() -> None:
    """Each answer once; sidecars by state; what others show too."""
    more = Gauge("other_series", "Of somebody else.", registry=CollectorRegistry())
    more.set(3)
    metrics = ApiMetrics(Shelf(), Fleet(), [more])  # type: ignore[arg-type]
    metrics.answered("GET", "/api/v1/models", 200, 0.004)
    text = metrics.render().decode()
    for line in (
        'outrigger_api_requests_total{method="GET",route="/api/v1/models",status="200"} 1.0',
        'outrigger_api_request_duration_seconds_count{method="GET",route="/api/v1/models"} 1.0',
        "outrigger_revision 7.0",
        "outrigger_revision_in_force 6.0",
        "outrigger_database_up 0.0",
        'outrigger_sidecars{state="in_force"} 1.0',
        'outrigger_sidecars{state="refused"} 1.0',
        'outrigger_sidecars{state="behind"} 1.0',
        "other_series 3.0",
    ):
        assert f"{line}\n" in text


async def test_a_port_of_their_own_shows_metrics_and_nothing_else() -> None:
    """To anybody, as only Prometheus reaches it."""
    metrics = ApiMetrics(Shelf(), Fleet())  # type: ignore[arg-type]
    transport = httpx.ASGITransport(metrics_application(metrics))
    async with httpx.AsyncClient(transport=transport, base_url="http://metrics") as client:
        answer = await client.get("/metrics")
        assert (answer.status_code, "outrigger_revision 7.0" in answer.text) == (200, True)
        assert (await client.get("/api/v1/models")).status_code == 404
