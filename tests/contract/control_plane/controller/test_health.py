"""The controller's own port over real HTTP."""

from __future__ import annotations

from aiohttp.test_utils import TestClient, TestServer

from control_plane.controller.health import HEARD_WITHIN_S, Health
from control_plane.controller.metrics import Metrics


async def test_ready_is_who_has_heard_of_the_api_server() -> None:
    """Not before, not long after; alive all the time."""
    time = [0.0]
    health = Health(lambda: time[0], Metrics().text)
    async with TestClient(TestServer(health.application())) as client:
        assert (await client.get("/readyz")).status == 503
        health.heard()
        assert (await client.get("/readyz")).status == 200
        time[0] = HEARD_WITHIN_S
        assert (await client.get("/readyz")).status == 503
        assert (await client.get("/healthz")).status == 200
        assert "outrigger_controller_leads" in await (await client.get("/metrics")).text()


async def test_it_serves_until_it_is_stopped() -> None:
    """On the address that it is given, which is free again afterwards."""
    health = Health(lambda: 0.0, bytes)
    for _ in range(2):
        await health.start("127.0.0.1", 0)
        await health.stop()
