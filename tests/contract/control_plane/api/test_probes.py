"""Health, readiness and metrics over real HTTP."""

from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from control_plane.push.policy import Policy
from control_plane.push.sidecars import Identity
from control_plane.resources.compile import compile_snapshot
from tests.contract.control_plane.api.papers import backend
from tests.contract.control_plane.api.served import Served, serve


async def test_health_waits_for_nobody(served: Served) -> None:
    """The process answers, and that is all it says, to anybody."""
    async with served.client(None) as client:
        answer = await client.get("/healthz")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_readiness_follows_the_sidecars(tmp_path: Path) -> None:
    """503 with a reason until one serves what is in force, then 200."""
    async with serve(tmp_path, min_ready_sidecars=1) as served, served.client(None) as client:
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()) == (
            503,
            {
                "status": "not ready",
                "sidecars": 0,
                "database": "ok",
                "reason": "0 of 1 sidecars connected",
            },
        )
        head = served.registry.in_force
        served.fleet.publish(Policy(1, lambda workload: compile_snapshot(head.documents, workload, 1)))
        sidecar = served.fleet.connect(Identity("a", "default"), lambda: None)
        served.fleet.next_message(sidecar)
        served.fleet.acknowledge(sidecar, sidecar.pushed)
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()) == (
            200,
            {"status": "ready", "sidecars": 1, "database": "ok"},
        )


async def test_metrics_have_closed_labels(admin: httpx.AsyncClient) -> None:
    """Path templates, methods, statuses: what callers invent makes no series."""
    await admin.put("/api/v1/backends/openai", json=backend())
    for number in range(20):
        await admin.get(f"/api/v1/models/invented-{number}")
        await admin.get(f"/invented-{number}")
        await admin.request(f"FOO{number}", "/")
    text = (await admin.get("/metrics")).text
    assert "invented" not in text
    assert "FOO" not in text
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    requests = "outrigger_api_requests_total"
    assert samples[requests, "/api/v1/models/{name}", "404", "GET"] == 20
    assert samples[requests, "404", "GET", "none"] == 20
    assert samples[requests, "/api/v1/backends/{name}", "201", "PUT"] == 1
    assert samples["outrigger_revision",] == 1
    assert samples["outrigger_documents", "Backend"] == 1
    assert samples["outrigger_database_up",] == 1
    assert samples["outrigger_sidecars", "in_force"] == 0
