"""How the mesh does now, over HTTP."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import httpx
import pytest

from control_plane.api import live
from control_plane.auth.roles import Role
from control_plane.dashboard.rings import STEPS
from control_plane.push.sidecars import Identity, Sidecar
from control_plane.push.views import TierStatistics, VersionStatistics
from tests.contract.control_plane.api.papers import backend
from tests.contract.control_plane.api.served import Served

WATCHING = {"accept": "text/event-stream"}


def tell(served: Served, calls: int) -> Sidecar:
    """Connect a sidecar that has counted so many calls since it came."""
    sidecar = served.fleet.connect(Identity("shop-1", "shop"), lambda: None)
    served.fleet.told(sidecar, replace(sidecar.told, epoch="e"))
    versions = (VersionStatistics("mini", "stable", calls=calls, duration={60: calls}),)
    tiers = (TierStatistics("gold", calls, 1),)
    served.fleet.told(sidecar, replace(sidecar.told, versions=versions, tiers=tiers))
    return sidecar


async def test_the_overview_is_what_sidecars_tell(served: Served, admin: httpx.AsyncClient) -> None:
    """By model and Tier, beside how many of them there are."""
    await admin.put("/api/v1/backends/openai", json=backend())
    tell(served, 7)
    body = (await admin.get("/api/v1/overview")).json()
    assert body["fleet"] == {
        **{"known": 1, "connected": 1, "inForce": 0, "refused": 0},
        **{"revision": 1, "revisionInForce": 1, "database": True},
    }
    assert body["documents"]["backends"] == 1
    assert body["sums"]["calls"] == 7
    assert [(row["model"], row["version"], row["recentCalls"]) for row in body["models"]] == [
        ("mini", "stable", 7)
    ]
    assert [row["tier"] for row in body["tiers"]] == ["gold"]
    assert len(body["series"]["latencyP95"]) == STEPS


async def test_it_is_told_again_and_again(served: Served, admin: httpx.AsyncClient) -> None:
    """First the whole, then what is new."""
    tell(served, 1)
    events: list[dict[str, object]] = []
    async with admin.stream("GET", "/api/v1/live", headers=WATCHING) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                events.append(json.loads(line.removeprefix("data: ")))
            if len(events) == 2:
                break
    assert [event["whole"] for event in events] == [True, False]
    assert events[1]["sums"] == events[0]["sums"]


async def test_who_asks_for_no_stream_gets_one_event(admin: httpx.AsyncClient) -> None:
    """Whoever reads every path of the API is not kept."""
    answer = await asyncio.wait_for(admin.get("/api/v1/live"), 5)
    assert answer.text.count("event: overview") == 1


async def test_a_server_that_stops_ends_the_stream(served: Served, admin: httpx.AsyncClient) -> None:
    """It would wait for whoever still listens."""
    async with admin.stream("GET", "/api/v1/live", headers=WATCHING) as answer:
        served.app.state.end_streams()
        told = [line async for line in answer.aiter_lines() if line.startswith("event")]
    assert len(told) <= 2


async def test_only_so_many_watch(admin: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs something every second."""
    monkeypatch.setattr(live, "MAX_WATCHING", 0)
    assert (await admin.get("/api/v1/live")).status_code == 503


async def test_who_may_not_see_sidecars_sees_nothing_of_it(served: Served) -> None:
    """Neither the numbers nor the stream."""
    async with served.client(await served.token(Role.VIEWER, "models:read")) as client:
        for path in ("/api/v1/overview", "/api/v1/live"):
            assert (await client.get(path)).status_code == 403
