"""A new version's part of the cache, filled at the steps of its Release."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.e2e.governed import ADMIN, BACKEND, Governed, in_force
from tests.harness.mesh import Mesh
from tests.harness.processes import until
from tests.harness.raw_http import Answer, post
from tests.harness.rude import RudeProvider

CALLERS = 20
HOT = ("where is my parcel?", "how do I return it?")
OWN_KEY = "sk-of-the-caller-7c1d"
MESH = """\
kind: Model
metadata: {name: m}
spec:
  versions:
    - {name: old, backend: rude, upstreamModel: model-old}
    - {name: new, backend: rude, upstreamModel: model-new, weight: 0}
  limits: {requestsPerMinute: 1000}
---
kind: Policy
metadata: {name: cached}
spec: {cache: {enabled: true}}
"""
RELEASE = {
    "kind": "Release",
    "metadata": {"name": "warmed"},
    "spec": {
        "model": "m",
        "from": "old",
        "to": "new",
        "steps": [5, 50],
        "bake": "1h",
        "stickyBy": ["session"],
        "warmCache": 10,
    },
}


@pytest.fixture(scope="module")
def governed(rude: RudeProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Governed]:
    """A mesh of a cached Model with two versions of one Backend, which needs no key."""
    documents = "---\n".join([BACKEND.format(name="rude", port=rude.port, default="true"), MESH])
    with Mesh(tmp_path_factory.mktemp("warmup"), documents, options=["--admin-token", ADMIN]) as mesh:
        yield Governed(mesh)


async def ask(mesh: Mesh, session: int, text: str, key: str = "") -> Answer:
    """Ask as one of the callers."""
    headers = {"x-outrigger-session": f"s{session}"} | ({"authorization": f"Bearer {key}"} if key else {})
    document = {"model": "m", "messages": [{"role": "user", "content": text}]}
    answer = await post(mesh.proxy_port, document, headers)
    assert answer.status == 200
    return answer


async def on_old(mesh: Mesh) -> list[int]:
    """Return callers that are on the old version, having asked each another question."""
    found: list[int] = []
    for session in range(CALLERS + 10):
        answer = await ask(mesh, session, f"caller {session}")
        if answer.get("x-outrigger-version") == "old":
            found.append(session)
    return found[:CALLERS]


async def left(mesh: Mesh, session: int, text: str) -> int:
    """Return how many calls of the Model are left, after one more that is no hit."""
    return int((await ask(mesh, session, text)).get("x-ratelimit-remaining-requests") or 0)


def calls(rude: RudeProvider) -> Counter[tuple[str, str]]:
    """Return what the provider was asked of this Model, by its version's name and question."""
    # It is the provider of other tests too, whose last calls may come late.
    documents = [seen.json() for seen in rude.seen()]
    ours = [one for one in documents if one.get("model") in {"model-old", "model-new"}]
    return Counter((one["model"], one["messages"][-1]["content"]) for one in ours)


def warmups(mesh: Mesh) -> dict[str, int]:
    """Return what became of the questions."""
    found = re.findall(
        r'^outrigger_cache_warmups_total\{outcome="(\w+)"\} (\d+)', mesh.metrics(), re.MULTILINE
    )
    return {outcome: int(number) for outcome, number in found if int(number)}


async def test_callers_who_move_find_what_is_asked_most(governed: Governed, rude: RudeProvider) -> None:
    """The new version is asked for it once, by nobody's account; what needs a caller's own key is left."""
    governed.api.put("releases/warmed", json=RELEASE).raise_for_status()
    until(lambda: in_force(governed), 5, "the release is in force")
    callers = await on_old(governed.mesh)
    for number, session in enumerate(callers):
        await ask(governed.mesh, session, HOT[number % 2])
        await ask(governed.mesh, session, "only with my key", OWN_KEY)
    asked = calls(rude)
    assert not any(asked["model-new", text] for text in HOT)
    remaining = await left(governed.mesh, callers[0], "what is left?")
    governed.good("release", "promote", "warmed")
    until(lambda: warmups(governed.mesh) == {"answered": 2, "skipped": 1}, 10, "it is warmed up")
    found = calls(rude)
    assert found - asked == {("model-old", "what is left?"): 1} | {("model-new", text): 1 for text in HOT}
    then = await asyncio.gather(*(ask(governed.mesh, session, text) for session in callers for text in HOT))
    assert 4 <= sum(one.get("x-outrigger-version") == "new" for one in then) < len(then)
    assert {one.get("x-outrigger-cache") for one in then} == {"hit"}
    assert calls(rude) == found
    assert await left(governed.mesh, callers[0], "and now?") == remaining - 1
    assert "Traceback" not in governed.mesh.log()
    for secret in (OWN_KEY, *HOT):
        assert secret not in governed.mesh.log()
