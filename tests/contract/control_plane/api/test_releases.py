"""Releases over HTTP: how far each is, and what people may do to it."""

from __future__ import annotations

import httpx
import pytest

from control_plane.auth.roles import Role
from control_plane.registry.values import Actor
from control_plane.releases.counts import Both, Compared, Counts
from control_plane.releases.machine import Action, Standing
from ext_proc.contract.comparisons import Likeness
from tests.contract.control_plane.api.papers import backend, document
from tests.contract.control_plane.api.served import Served

RELEASE = document(
    "Release", "r", **{"model": "m", "from": "old", "to": "new", "steps": [5, 50], "bake": "0s"}
)
PATH = "/api/v1/releases/r"


@pytest.fixture
async def admin(admin: httpx.AsyncClient) -> httpx.AsyncClient:
    """A client of an API with the Release `r`."""
    versions = [{"name": "old", "backend": "openai"}, {"name": "new", "backend": "openai"}]
    papers = [backend(), document("Model", "m", versions=versions), RELEASE]
    assert (await admin.post("/api/v1/apply", json=papers)).status_code == 200
    return admin


async def test_a_release_is_read_with_its_status(admin: httpx.AsyncClient) -> None:
    """Beside the document as it was written, under the document's tag; what is read can be put again."""
    found = await admin.get(PATH)
    status = found.json().pop("status")
    assert {key: value for key, value in found.json().items() if key != "status"} == RELEASE
    assert (status["phase"], status["step"], status["share"]) == ("pending", 1, 5)
    assert status["decisions"][0]["reason"] == "applied"
    assert [gate["gate"] for gate in status["analysis"]["gates"]] == ["errorRate", "latencyP95", "ttftP95"]
    again = await admin.get(PATH, headers={"if-none-match": found.headers["etag"]})
    assert again.status_code == 200
    put = await admin.put(PATH, json=found.json(), headers={"if-match": found.headers["etag"]})
    assert (put.status_code, put.headers["etag"]) == (200, found.headers["etag"])
    assert (await admin.get("/api/v1/releases")).json() == {"items": [RELEASE]}


async def test_people_move_it(admin: httpx.AsyncClient) -> None:
    """One step at a time; after the last its share is 100; then nothing moves it any more."""
    seen = []
    for action in ("promote", "pause", "resume", "promote", "promote"):
        answer = await admin.post(f"{PATH}/{action}")
        status = answer.json()["status"]
        if answer.status_code == 200:
            seen.append((status["phase"], status["step"], status["share"]))
    assert seen == [
        ("progressing", 2, 50),
        ("paused", 2, 50),
        ("progressing", 2, 50),
        ("promoting", 2, 100),
    ]
    assert (answer.status_code, status) == (409, 409)
    assert (await admin.post(f"{PATH}/abort")).headers["content-type"] == "application/problem+json"
    assert (await admin.post("/api/v1/releases/x/promote")).status_code == 404


async def test_roles_are_respected(served: Served, admin: httpx.AsyncClient) -> None:
    """A viewer sees it and moves nothing."""
    async with served.client(await served.token(Role.VIEWER)) as viewer:
        assert (await viewer.get(PATH)).status_code == 200
        assert (await viewer.post(f"{PATH}/abort")).status_code == 403
    assert (await admin.get(PATH)).json()["status"]["phase"] == "pending"


async def test_numbers_are_shown(served: Served, admin: httpx.AsyncClient) -> None:
    """Of both versions at this step, and what each gate says."""
    both = Both(Counts(95, duration={70: 95}), Counts(5, 5))
    await served.registry.look_at_releases({"r": both}, obeyed=True)
    analysis = (await admin.get(PATH)).json()["status"]["analysis"]
    assert analysis["new"] == {
        "requests": 5,
        "errors": 5,
        "latencyP95Ms": None,
        "ttftP95Ms": None,
        "durations": [],
    }
    assert analysis["old"]["durations"] == [{"upToMs": pytest.approx(1.1**70, abs=0.01), "calls": 95}]
    assert analysis["old"]["latencyP95Ms"] == pytest.approx(1.1**69.95)
    assert analysis["gates"][0]["evidence"] > 1


async def test_how_alike_the_answers_are_is_shown(served: Served, admin: httpx.AsyncClient) -> None:
    """Of those that both versions gave, and of those in the cache; before the first one nothing."""
    status = (await admin.get(PATH)).json()["status"]
    assert (status["shadow"], status["cache"]) == (None, None)
    alike = Likeness(4, 3, 3200, 100, 150, 1, 2, cache_compared=5, cache_disagreed=1)
    await served.registry.look_at_releases({}, obeyed=True, compared={"r": Compared(likeness=alike)})
    status = (await admin.get(PATH)).json()["status"]
    assert status["shadow"] == {
        "compared": 4,
        "agreement": 0.75,
        "similarity": 0.8,
        "lengthRatio": 1.5,
        "otherStatus": 1,
        "otherFinish": 2,
    }
    assert status["cache"] == {"compared": 5, "disagreed": 1}


async def test_a_release_that_is_deleted_meanwhile_is_gone(served: Served, admin: httpx.AsyncClient) -> None:
    """It did move, and is not there to be shown."""
    act = served.registry.act_on_release

    async def act_and_lose(name: str, action: Action, actor: Actor) -> Standing:
        standing = await act(name, action, actor)
        await served.registry.delete("Release", name, actor)
        return standing

    served.registry.act_on_release = act_and_lose  # type: ignore[method-assign]
    assert (await admin.post(f"{PATH}/pause")).status_code == 404
