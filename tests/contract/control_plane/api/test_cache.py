"""The caches of the mesh over real HTTP, with a sidecar that says what the test has it say."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import httpx
import pytest

from control_plane.auth.roles import Role
from control_plane.push.sidecars import Identity, Sidecar, Told
from ext_proc.contract import push_pb2
from ext_proc.contract.cache import CacheAnswer, CacheEntry, CacheStatistics, TierStatistics, first_entries
from ext_proc.contract.cache_wire import answer_message, question_of
from ext_proc.contract.snapshot import Purge
from tests.contract.control_plane.api.papers import backend, model
from tests.contract.control_plane.api.served import Served

KEYS = [f"{number:02x}" * 32 for number in range(5)]
BODY = b'{"choices": [{"message": {"content": "to nobody but admins"}}]}'
ENTRIES = [
    CacheEntry(
        key, "memory", "mini" if key in KEYS[:3] else "other", "stable", "tenant:team-a", 1.0, 9.0, 5.0, 63,
        2, "application/json", BODY,
    )
    for key in KEYS
]  # fmt: skip


class Answering:
    """A sidecar that answers from `ENTRIES`."""

    def __init__(self, served: Served, name: str) -> None:
        self._served = served
        self.sidecar: Sidecar = served.fleet.connect(Identity(name, "shop", answers=True), self._wake)

    def _wake(self) -> None:
        while (message := self._served.fleet.next_message(self.sidecar)) is not None:
            asked = push_pb2.Snapshot.FromString(message).question
            if asked.id:
                asyncio.get_running_loop().call_soon(self._answer, asked)

    def _answer(self, asked: push_pb2.CacheQuestion) -> None:
        question = question_of(asked)
        assert question is not None
        found = [entry for entry in ENTRIES if question.asks_for(entry.key, entry.model, entry.tenant)]
        answer = first_entries(found, question.limit)
        if not question.bodies:
            answer = CacheAnswer(tuple(replace(entry, body=None) for entry in answer.entries), answer.more)
        self._served.questions.answered(self.sidecar.identity.sidecar, answer_message(answer, asked.id))


async def keys(client: httpx.AsyncClient, **query: object) -> list[str]:
    """Return the keys of the entries that are listed."""
    answer = await client.get("/api/v1/cache/entries", params={k: str(v) for k, v in query.items()})
    assert answer.status_code == 200, answer.text
    return [item["key"] for item in answer.json()["items"]]


async def purge(client: httpx.AsyncClient, body: object) -> httpx.Response:
    """Purge."""
    return await client.post("/api/v1/cache/purge", json=body)


async def test_statistics_are_told_together_and_one_by_one(served: Served, admin: httpx.AsyncClient) -> None:
    """Whoever has left keeps nothing any more, and has done what it did. It is said whose they are."""
    statistics = CacheStatistics((TierStatistics("memory", 3, 1, 2, 20),), hits=3, misses=1)
    for name in ("one", "two"):
        sidecar = served.fleet.connect(Identity(name, "shop"), lambda: None)
        served.fleet.told(sidecar, Told(cache=statistics))
    served.fleet.disconnect(sidecar)
    body = (await admin.get("/api/v1/cache")).json()
    assert body["scope"] == "the sidecars of all replicas of the control plane"
    assert (body["total"]["hits"], body["total"]["hitRatio"]) == (6, 0.75)
    assert body["total"]["tiers"][0]["entries"] == 2
    shown = {item["sidecar"]: item for item in body["sidecars"]}
    assert [shown[name]["connected"] for name in ("one", "two")] == [True, False]
    assert [shown[name]["tiers"][0]["bytes"] for name in ("one", "two")] == [20, 0]
    assert "cache" not in (await admin.get("/api/v1/sidecars?statistics=true")).json()["items"][0]


async def test_entries_are_listed_without_what_was_answered(served: Served) -> None:
    """A viewer narrows them by beginning, Model (or alias) and tenant, and goes through them in pages."""
    async with served.client() as admin:
        await admin.post("/api/v1/apply", json=[backend(), model(aliases=["fast"])])
    Answering(served, "one")
    Answering(served, "two")
    async with served.client(await served.token(Role.VIEWER)) as viewer:
        answer = await viewer.get("/api/v1/cache/entries")
        first = answer.json()["items"][0]
        assert (first["key"], first["hits"], first["sidecars"]) == (KEYS[0], 4, ["one", "two"])
        assert "nobody but admins" not in answer.text
        assert answer.json()["unanswered"] == []
        assert "next" not in answer.json()
        assert await keys(viewer, keyPrefix="03") == [KEYS[3]]
        assert await keys(viewer, model="fast") == KEYS[:3]
        assert await keys(viewer, tenant="team-a") == await keys(viewer, tenant="tenant:team-a") == KEYS
        assert await keys(viewer, tenant="team-b") == []
        page = (await viewer.get("/api/v1/cache/entries?limit=2")).json()
        assert page["next"] == KEYS[1]
        assert await keys(viewer, limit=2, after=page["next"]) == KEYS[2:4]
        for wrong in ("keyPrefix=x", "limit=0", "after=", "keyprefix=0a"):
            assert (await viewer.get(f"/api/v1/cache/entries?{wrong}")).status_code == 422


async def test_who_is_silent_is_named(served: Served, admin: httpx.AsyncClient) -> None:
    """A sidecar of an older build does not know questions."""
    Answering(served, "one")
    served.fleet.connect(Identity("old", "shop"), lambda: None)
    body = (await admin.get("/api/v1/cache/entries")).json()
    assert (len(body["items"]), body["unanswered"]) == (len(KEYS), ["old"])


async def test_an_answer_is_for_admins_and_in_the_audit(served: Served, admin: httpx.AsyncClient) -> None:
    """An editor may not read what tenants were answered; a key that nobody keeps is 404."""
    Answering(served, "one")
    path = f"/api/v1/cache/entries/{KEYS[1].upper()}"
    async with served.client(await served.token(Role.EDITOR)) as editor:
        assert (await editor.get(path)).status_code == 403
    shown = (await admin.get(path)).json()
    assert shown["body"]["choices"][0]["message"]["content"] == "to nobody but admins"
    assert (shown["key"], shown["contentType"]) == (KEYS[1], "application/json")
    audited = (await admin.get("/api/v1/audit")).json()["items"][0]
    assert (audited["action"], audited["target"]) == ("read", f"cached answer {KEYS[1]}")
    missing = await admin.get(f"/api/v1/cache/entries/{'f' * 64}")
    assert (missing.status_code, missing.headers["content-type"]) == (404, "application/problem+json")
    assert (await admin.get("/api/v1/cache/entries/abc")).status_code == 422


async def test_a_purge_is_a_revision_of_an_editor(served: Served, admin: httpx.AsyncClient) -> None:
    """It says what it voids and since when, in names as they are kept."""
    await admin.post("/api/v1/apply", json=[backend(), model(aliases=["fast"])])
    async with served.client(await served.token(Role.VIEWER)) as viewer:
        assert (await purge(viewer, {"all": True})).status_code == 403
    async with served.client(await served.token(Role.EDITOR)) as editor:
        answer = await purge(editor, {"model": "fast", "tenant": "team-a"})
    body = answer.json()
    assert (answer.status_code, body["revision"]) == (200, 2)
    assert (body["model"], body["tenant"], body["version"], body["keyPrefix"]) == (
        "mini",
        "tenant:team-a",
        None,
        None,
    )
    (kept,) = served.registry.in_force.purges
    assert (kept.model, kept.tenant) == ("mini", "tenant:team-a")
    shown = (await admin.get("/api/v1/snapshot")).json()["purges"]
    assert [one["atS"] for one in shown] == [kept.at_s]
    revision = (await admin.get("/api/v1/revisions/2")).json()
    assert (revision["action"], revision["detail"]) == (
        "purge",
        "cache: Model mini, tenant tenant:team-a",
    )
    await admin.post("/api/v1/revisions/1/rollback")
    assert served.registry.in_force.purges == (kept,)
    assert (await purge(admin, {"all": True})).json()["revision"] == 4
    assert served.registry.in_force.purges[0].model is None


@pytest.mark.parametrize(
    ("order", "wanted"),
    [
        ({"keyPrefix": "0A"}, Purge(0.0, key_prefix="0a")),
        ({"key": KEYS[1].upper()}, Purge(0.0, key_prefix=KEYS[1])),
        ({"tenant": "key:0a"}, Purge(0.0, tenant="key:0a")),
        ({"model": "mini", "version": "stable"}, Purge(0.0, model="mini", version="stable")),
    ],
    ids=["beginning", "key", "digest", "version"],
)
async def test_each_way_to_purge(
    served: Served, admin: httpx.AsyncClient, order: dict[str, str], wanted: Purge
) -> None:
    """As sidecars get it."""
    await admin.post("/api/v1/apply", json=[backend(), model()])
    assert (await purge(admin, order)).status_code == 200
    (kept,) = served.registry.in_force.purges
    assert replace(kept, at_s=0.0) == wanted


@pytest.mark.parametrize(
    "order",
    [
        {},
        {"all": False},
        {"all": "yes"},
        {"all": True, "model": "mini"},
        {"model": "nobody"},
        {"version": "stable"},
        {"model": "mini", "version": "gone"},
        {"keyPrefix": "xyz"},
        {"keyPrefix": ""},
        {"keyPrefix": "0" * 65},
        {"key": "0a"},
        {"key": "0" * 64 + "\n"},
        {"key": "0" * 64, "keyPrefix": "0"},
        {"tenant": ""},
        {"tenant": "a\nb"},
        {"modell": "mini"},
        {"model": None},
    ],
)
async def test_what_would_purge_too_much_or_nothing_is_refused(
    lasting: Served, visitor: httpx.AsyncClient, order: dict[str, Any]
) -> None:
    """As a problem that says what is wrong; nothing is changed."""
    await visitor.post("/api/v1/apply", json=[backend(), model()])
    answer = await purge(visitor, order)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert answer.json()["errors"], answer.text
    assert lasting.registry.in_force.purges == ()


async def test_a_stranger_sees_nothing(served: Served) -> None:
    """Nor purges anything."""
    async with served.client(None) as nobody:
        for path in ("", "/entries", f"/entries/{KEYS[0]}"):
            assert (await nobody.get(f"/api/v1/cache{path}")).status_code == 401
        assert (await purge(nobody, {"all": True})).status_code == 401
    async with served.client(await served.token(Role.VIEWER, "models:read")) as narrow:
        assert (await narrow.get("/api/v1/cache")).status_code == 403
