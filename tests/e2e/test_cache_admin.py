"""Cached answers seen and purged from outside, and pins, on a real mesh."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.e2e.governed import ADMIN, SECOND, Governed, in_force
from tests.harness.mesh import Mesh
from tests.harness.plain import PLAIN
from tests.harness.processes import until
from tests.harness.redis import RedisMissingError, redis_server
from tests.harness.rude import Act, RudeProvider, completion, reply

DOCUMENTS: Final = """\
kind: Backend
metadata: {{name: rude}}
spec: {{url: "http://127.0.0.1:{rude}/v1", default: true}}
---
kind: Model
metadata: {{name: mini}}
spec:
  aliases: [fast]
  prices: {{inputPerMillion: 1000000, outputPerMillion: 2000000}}
  versions: [{{name: stable, backend: rude}}]
---
kind: Model
metadata: {{name: large}}
spec: {{versions: [{{name: stable, backend: rude}}]}}
---
kind: Consumer
metadata: {{name: app-a}}
spec: {{tenant: team-a}}
---
kind: Consumer
metadata: {{name: app-b}}
spec: {{tenant: team-b}}
---
kind: Policy
metadata: {{name: cached}}
spec: {{cache: {{enabled: true}}}}
"""
MODELS: Final = ("mini", "large")


class Shop:
    """A mesh with two Models, and two tenants who ask it."""

    def __init__(self, mesh: Mesh) -> None:
        self.governed = Governed(mesh)
        self.api = self.governed.api
        self._url = f"{mesh.url}/chat/completions"
        self.keys = {
            team: str(self.api.post(f"/consumers/app-{team}/keys").json()["key"]) for team in ("a", "b")
        }
        until(lambda: in_force(self.governed), 5, "the keys are in force")

    def ask(self, team: str, model: str, text: str, **more: Any) -> httpx.Response:
        """Ask as a tenant's Consumer; `headers` go along."""
        headers = {"authorization": f"Bearer {self.keys[team]}", **more.pop("headers", {})}
        body = {"model": model, "messages": [{"role": "user", "content": text}], **more}
        answer = httpx.post(self._url, json=body, headers=headers, timeout=20, verify=PLAIN)
        assert answer.status_code == 200, answer.text
        return answer

    def cached(self, team: str, model: str, text: str, *, only: bool = False) -> bool:
        """Return whether the answer comes from the cache; with `only` without a call, and without filling."""
        if not only:
            return self.ask(team, model, text).headers["x-outrigger-cache"] == "hit"
        headers = {"authorization": f"Bearer {self.keys[team]}", "x-outrigger-cache": "only"}
        body = {"model": model, "messages": [{"role": "user", "content": text}]}
        return httpx.post(self._url, json=body, headers=headers, timeout=20, verify=PLAIN).status_code == 200

    def fill(self, text: str) -> dict[tuple[str, str], str]:
        """Have both tenants ask both Models; return the keys of the answers."""
        found: dict[tuple[str, str], str] = {}
        for team in self.keys:
            for model in MODELS:
                before = self.entries(team, model)
                self.ask(team, model, text)
                assert self.cached(team, model, text)
                (found[team, model],) = self.entries(team, model) - before
        return found

    def entries(self, team: str, model: str) -> set[str]:
        """Return the keys that memory has for a tenant and a Model."""
        query: dict[str, str | int] = {"tenant": f"team-{team}", "model": model, "limit": 1000}
        return {item["key"] for item in self.api.get("/cache/entries", params=query).json()["items"]}

    def purge(self, **conditions: object) -> int:
        """Purge; return the revision."""
        answer = self.api.post("/cache/purge", json=conditions)
        assert answer.status_code == 200, answer.text
        return int(answer.json()["revision"])


@pytest.fixture(scope="module")
def shop(rude: RudeProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """One mesh for the file, over Redis where there is one: a purge reaches every tier."""
    options = ["--admin-token", ADMIN]
    with ExitStack() as running:
        try:
            redis = running.enter_context(redis_server(Path(tmp_path_factory.mktemp("redis"))))
            options += ["--redis", redis.url]
        except RedisMissingError:
            if os.environ.get("CI"):
                raise
        documents = DOCUMENTS.format(rude=rude.port)
        mesh = Mesh(tmp_path_factory.mktemp("shop"), documents, options)
        yield Shop(running.enter_context(mesh))


WAYS: Final[list[Any]] = [
    pytest.param(lambda keys: {"all": True}, lambda team, model: True, id="all"),
    pytest.param(lambda keys: {"tenant": "team-a"}, lambda team, model: team == "a", id="tenant"),
    pytest.param(lambda keys: {"model": "fast"}, lambda team, model: model == "mini", id="alias"),
    pytest.param(
        lambda keys: {"model": "large", "version": "stable", "tenant": "tenant:team-b"},
        lambda team, model: (team, model) == ("b", "large"),
        id="version and tenant",
    ),
    pytest.param(
        lambda keys: {"key": keys["a", "large"]},
        lambda team, model: (team, model) == ("a", "large"),
        id="key",
    ),
    pytest.param(
        lambda keys: {"keyPrefix": keys["b", "mini"][:24]},
        lambda team, model: (team, model) == ("b", "mini"),
        id="beginning",
    ),
]


@pytest.mark.parametrize(("conditions", "is_meant"), WAYS)
def test_a_purge_is_in_force_within_a_second_and_leaves_others_alone(
    shop: Shop,
    script: str,
    conditions: Callable[[dict[tuple[str, str], str]], dict[str, object]],
    is_meant: Callable[[str, str], bool],
) -> None:
    """In every tier: what is void is asked for again, and kept again."""
    text = f"question of {script}"
    keys = shop.fill(text)
    shop.purge(**conditions(keys))
    meant = [one for one in keys if is_meant(*one)]
    assert meant
    until(
        lambda: not any(shop.cached(*one, text, only=True) for one in meant), SECOND, "the purge is in force"
    )
    for one in keys:
        assert shop.cached(*one, text) == (one not in meant), one
        assert shop.cached(*one, text)


def test_an_answer_on_its_way_is_void_too(shop: Shop, rude: RudeProvider, script: str) -> None:
    """Its caller gets it; nobody else does, as the question was asked before the purge."""
    headers = rude.script(script, [Act.HOLD, reply(200, completion("old"))], reply(200, completion("new")))
    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(shop.ask, "a", "mini", script, headers=headers)
        until(lambda: len(rude.seen(script)) == 1, 5, "the provider is asked")
        shop.purge(model="mini")
        until(lambda: in_force(shop.governed), SECOND, "the purge is in force")
        rude.release(script)
        assert asking.result(10).json()["choices"][0]["message"]["content"] == "old"
    again = shop.ask("a", "mini", script, headers=headers)
    assert again.headers["x-outrigger-cache"] == "miss"
    assert again.json()["choices"][0]["message"]["content"] == "new"
    assert shop.ask("a", "mini", script, headers=headers).json()["choices"] == again.json()["choices"]


def test_a_rollback_brings_nothing_back(shop: Shop, script: str) -> None:
    """The purge is a revision that has no way back."""
    shop.fill(script)
    before = int(shop.api.get("/revisions?limit=1").json()["items"][0]["revision"])
    shop.purge(tenant="team-a")
    assert shop.api.post(f"/revisions/{before}/rollback").status_code == 200
    until(lambda: in_force(shop.governed), SECOND, "the rollback is in force")
    assert not shop.cached("a", "mini", script, only=True)
    assert shop.cached("b", "mini", script, only=True)


def test_the_command_shows_what_hits_saved(shop: Shop, script: str) -> None:
    """Within a few seconds of the hit: tokens by the stored usage, money by the Model's prices."""
    shop.fill(script)
    before = json.loads(shop.governed.good("cache", "stats", "-o", "json"))["total"]
    for _ in range(3):
        assert shop.cached("a", "mini", script)

    def saved(name: str) -> float:
        total = json.loads(shop.governed.good("cache", "stats", "-o", "json"))["total"]
        return float(total["saved"][name] - before["saved"][name])

    until(lambda: saved("promptTokens") >= 3 * 9, 15, "the hits are told")
    assert saved("completionTokens") >= 3 * 3
    assert saved("cost") >= 3 * (9 * 1.0 + 3 * 2.0)
    shown = shop.governed.good("cache", "stats")
    assert shown.startswith("hit ratio ")
    assert "memory" in shown


def test_the_command_shows_answers_to_those_who_may_see_them(shop: Shop, script: str) -> None:
    """Everybody who may look sees that there is one; what it says only an admin."""
    key = shop.fill(script)["a", "mini"]
    lines = shop.governed.good("cache", "export", "--tenant", "team-a", "-o", "json").splitlines()
    (line,) = (line for line in lines if key in line)
    shown = json.loads(line)
    assert (shown["model"], shown["version"], shown["tenant"]) == ("mini", "stable", "tenant:team-a")
    assert script not in "".join(lines)
    assert f"to {script}" in shop.governed.good("cache", "get", key[:20])
    token = shop.api.post("/tokens", json={"role": "viewer"}).json()["token"]
    viewer = Governed(shop.governed.mesh, token)
    assert key[:16] in viewer.good("cache", "export")
    for command in (("get", key), ("purge", "--all")):
        status, out, err = viewer.run("cache", *command)
        assert (status, out) == (1, "")
        assert "needs the role" in err


def test_the_command_purges_and_waits(shop: Shop, script: str) -> None:
    """When it ends, the answers are void."""
    shop.fill(script)
    shown = shop.governed.good("cache", "purge", "--model", "mini", "--tenant", "team-b", "--wait")
    assert "every answer of Model mini, tenant:team-b" in shown
    assert not shop.cached("b", "mini", script, only=True)
    assert shop.cached("a", "mini", script, only=True)
    assert "purge" in shop.governed.good("history")


def test_a_pin_is_served_until_it_is_deleted(shop: Shop, script: str) -> None:
    """In both forms, for its exact message, whatever is purged; its Model cannot be deleted meanwhile."""
    pin = {"model": "large", "match": {"lastUserMessage": script}, "answer": "Welcome!"}
    put = shop.api.put("/pins/welcome", json={"kind": "Pin", "metadata": {"name": "welcome"}, "spec": pin})
    assert put.status_code == 201, put.text
    assert "x-outrigger-warnings" not in put.headers

    def answer(text: str = script) -> str:
        return str(shop.ask("a", "large", text).json()["choices"][0]["message"]["content"])

    until(lambda: answer() == "Welcome!", SECOND, "the pin is in force")
    stream = shop.ask("a", "large", script, stream=True).text
    assert "Welcome!" in stream
    assert stream.rstrip().endswith("data: [DONE]")
    assert answer(f"{script} ").endswith(f"to {script} ")
    shop.purge(all=True)
    until(lambda: in_force(shop.governed), SECOND, "the purge is in force")
    assert answer() == "Welcome!"
    refused = shop.api.delete("/models/large")
    assert (refused.status_code, refused.json()["errors"][0]["document"]) == (409, "Pin/welcome")
    assert shop.api.delete("/pins/welcome").status_code == 204
    until(lambda: answer().endswith(f"to {script}"), SECOND, "the pin is gone")
