"""The playground over HTTP: what goes to the proxy, what comes back and when, and who may play."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from control_plane.api import playground
from control_plane.api.playground import Answered, ProxyUnreachableError
from control_plane.auth.roles import Role
from ext_proc.contract.proofs import proven
from tests.contract.control_plane.api.papers import document
from tests.contract.control_plane.api.served import Served, serve

PATH = "/api/v1/playground"
PROMPT = {"model": "m", "prompt": "a secret question", "stream": False}


class Parrot:
    """A proxy that answers with `pieces`, and then breaks off if it is told to."""

    url = "http://proxy:10000"

    def __init__(self, *pieces: bytes, breaks: bool = False) -> None:
        self.pieces, self.breaks = pieces, breaks
        self.asked: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.tells = ""

    @asynccontextmanager
    async def ask(self, headers: Sequence[tuple[str, str]], body: bytes) -> AsyncIterator[Answered]:
        """Note the request and answer."""
        self.asked.append((dict(headers), json.loads(body)))
        told = [("x-outrigger-stages", self.tells)] if self.tells else []
        shown = [("x-outrigger-cache", "miss"), ("set-cookie", "c=1"), *told]
        yield Answered(200, shown, self._body())

    async def _body(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
        if self.breaks:
            raise ProxyUnreachableError("the proxy broke off")


def events(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return each event's name and data."""
    found = []
    for block in text.split("\n\n")[:-1]:
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


async def played(client: httpx.AsyncClient, **order: object) -> httpx.Response:
    """Send a prompt."""
    return await client.post(PATH, json={**PROMPT, **order})


@pytest.fixture
def parrot() -> Parrot:
    """A proxy whose answer comes in two pieces, cut inside a character."""
    return Parrot("sch\u00f6n".encode()[:4], "sch\u00f6n".encode()[4:])


@pytest.fixture
async def served(empty_database: Path, tmp_path: Path, parrot: Parrot) -> AsyncIterator[Served]:
    """An API with a playground."""
    shutil.copytree(empty_database, tmp_path / "data")
    async with serve(tmp_path / "data", proxy=parrot) as found:
        yield found


async def test_an_answer_is_told_as_it_comes(admin: httpx.AsyncClient, parrot: Parrot) -> None:
    """Head, pieces of whole characters, end: each with its time; cookies of a proxy stay away."""
    answer = await played(admin)
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = events(answer.text)
    assert [name for name, _ in found] == ["head", "body", "body", "end"]
    assert found[0][1]["headers"] == [["x-outrigger-cache", "miss"]]
    assert [data["text"] for _, data in found[1:3]] == ["sch", "\u00f6n"]
    assert found[3][1]["bytes"] == 6
    times = [data["ms"] for _, data in found]
    assert times == sorted(times)
    assert parrot.asked[0][1]["messages"] == [{"role": "user", "content": "a secret question"}]


async def test_the_proxy_is_shown_a_proof_and_its_stages_are_told(
    admin: httpx.AsyncClient, served: Served, parrot: Parrot
) -> None:
    """Another one each time; what it tells is told on, and what cannot be read is left away."""
    parrot.tells = '{"stages": [{"stage": "pin", "us": 2.5, "did": "passed"}], "upstreamMs": 8, "x": 1}'
    (_, head), *_ = events((await played(admin)).text)
    assert (head["stages"], head["upstreamMs"]) == ([{"stage": "pin", "us": 2.5, "did": "passed"}], 8)
    assert "x" not in head
    assert head["headers"] == [["x-outrigger-cache", "miss"]]
    for parrot.tells in ("[1]", "{", ""):
        (_, head), *_ = events((await played(admin)).text)
        assert "stages" not in head
    proofs = [headers["x-outrigger-stages"] for headers, _ in parrot.asked]
    salt = served.registry.in_force.key_salt
    assert len({proven(salt, proof, time.time()) for proof in proofs} - {""}) == len(proofs)


async def test_a_tier_is_played_by_its_headers(admin: httpx.AsyncClient, parrot: Parrot) -> None:
    """Whatever header it is that the Tier matches; a Tier without any is its Consumers' only."""
    gold = document("Tier", "gold", match={"header": {"x-plan": "gold"}}, limits={})
    await admin.post("/api/v1/apply", json=[gold, document("Tier", "bare", limits={})])
    assert (await played(admin, tier="gold", session="s", cache="no-store", key="ork_k")).status_code == 200
    headers = parrot.asked[0][0]
    assert (headers["x-plan"], headers["x-outrigger-session"], headers["x-outrigger-cache"]) == (
        "gold",
        "s",
        "no-store",
    )
    assert headers["authorization"] == "Bearer ork_k"
    for tier in ("bare", "missing"):
        refused = await played(admin, tier=tier)
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "tier")


async def test_a_break_is_told(admin: httpx.AsyncClient, parrot: Parrot) -> None:
    """And what is larger than an answer may be is not read on."""
    parrot.breaks = True
    assert events((await played(admin)).text)[-1][1]["reason"] == "the proxy broke off"
    parrot.breaks, parrot.pieces = False, (b"x" * playground.MOST_BYTES, b"x")
    assert events((await played(admin)).text)[-1][1]["reason"] == "the answer is larger than 4 MiB"


async def test_roles_are_respected(served: Served, parrot: Parrot) -> None:
    """It costs money: a viewer does not play, nor a token whose scopes are for something else."""
    for role, scopes in ((Role.VIEWER, ()), (Role.EDITOR, ("models:write",))):
        async with served.client(await served.token(role, *scopes)) as client:
            assert (await client.get(PATH)).status_code == 403
            assert (await played(client)).status_code == 403
    assert not parrot.asked
    async with served.client(await served.token(Role.EDITOR, "playground:write")) as client:
        assert (await client.get(PATH)).json() == {"proxy": "http://proxy:10000", "hint": None}
        assert (await played(client)).status_code == 200


async def test_the_audit_has_who_and_nothing_of_the_prompt(admin: httpx.AsyncClient) -> None:
    """What was asked is nobody's business."""
    await played(admin)
    rows = (await admin.get("/api/v1/audit")).json()["items"]
    assert (rows[0]["action"], rows[0]["target"]) == ("play", "Model/m")
    assert "secret question" not in json.dumps(rows)


async def test_without_a_proxy_it_says_what_to_set(empty_database: Path, tmp_path: Path) -> None:
    """There is nothing to play with."""
    shutil.copytree(empty_database, tmp_path / "data")
    async with serve(tmp_path / "data") as bare, bare.client() as client:
        shown = (await client.get(PATH)).json()
        assert shown["proxy"] is None and "--playground-proxy" in shown["hint"]
        refused = await played(client)
    assert (refused.status_code, refused.json()["detail"]) == (404, shown["hint"])
