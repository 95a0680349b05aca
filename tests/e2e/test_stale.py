"""Answers that are served after their time: while a fresh one is fetched, and when there is none."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from tests.harness.mesh import Mesh
from tests.harness.raw_http import Answer, post
from tests.harness.rude import Act, RudeProvider, completion, reply

_QUESTIONS = itertools.count(1)
STALE_AFTER_S = 0.35


def question(model: str, **more: Any) -> dict[str, Any]:
    """Return a question that nobody has asked before."""
    messages = [{"role": "user", "content": f"stale {next(_QUESTIONS)}"}]
    return {"model": model, "messages": messages, **more}


def said(answer: Answer) -> tuple[int, str | None, str]:
    """Return status, what the cache said, and the text."""
    return answer.status, answer.get("x-outrigger-cache"), answer.json()["choices"][0]["message"]["content"]


def good(text: str) -> bytes:
    """Return a provider's whole answer."""
    return reply(200, completion(text))


async def test_a_stale_answer_is_a_hit_and_is_fetched_anew_once(
    mesh: Mesh, rude: RudeProvider, script: str
) -> None:
    """Twenty callers at once get the old answer; one call goes up, and then all get the new one."""
    asked = question("revalidated")
    headers = rude.script(script, good("old"), good("new"), good("newest"))
    assert said(await post(mesh.proxy_port, asked, headers)) == (200, "miss", "old")
    await asyncio.sleep(STALE_AFTER_S)
    many = await asyncio.gather(*(post(mesh.proxy_port, asked, headers) for _ in range(20)))
    assert {said(answer) for answer in many} <= {(200, "hit", "old"), (200, "hit", "new")}
    assert said(many[0])[2] == "old"
    async with asyncio.timeout(3):
        while (answer := said(await post(mesh.proxy_port, asked, headers)))[2] == "old":
            assert answer[:2] == (200, "hit")
    assert answer == (200, "hit", "new")
    assert len(rude.seen(script)) == 2


async def test_a_provider_that_fails_meanwhile_is_not_noticed(
    mesh: Mesh, rude: RudeProvider, script: str
) -> None:
    """The stale answer stays, and is asked for again by the next caller."""
    asked = question("revalidated")
    headers = rude.script(script, good("old"), reply(400, {"error": {"message": "no"}}), good("new"))
    await post(mesh.proxy_port, asked, headers)
    await asyncio.sleep(STALE_AFTER_S)
    async with asyncio.timeout(3):
        while (answer := said(await post(mesh.proxy_port, asked, headers)))[2] == "old":
            assert answer[:2] == (200, "hit")
    assert len(rude.seen(script)) == 3


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param([reply(500, {"error": {"message": "broken"}})], id="500"),
        pytest.param([reply(429, {"error": {"message": "busy"}})], id="429"),
        pytest.param([Act.RESET], id="reset"),
        pytest.param(
            [b"HTTP/1.1 503 X\r\ncontent-type: text/html\r\ncontent-length: 3\r\n\r\nbad"], id="html"
        ),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_stale_answer_stands_in_for_trouble(
    mesh: Mesh, rude: RudeProvider, script: str, trouble: list[Any], stream: bool
) -> None:
    """With its age and as a hit, in the form that was asked for; what is not trouble passes as it is."""
    asked = question("rescued", stream=stream)
    headers = rude.script(script, good("old"), trouble, good("new"))
    first = await post(mesh.proxy_port, {**asked, "stream": False}, headers)
    assert said(first) == (200, "miss", "old")
    await asyncio.sleep(STALE_AFTER_S)
    answer = await post(mesh.proxy_port, asked, headers)
    assert (answer.status, answer.get("x-outrigger-cache")) == (200, "hit")
    assert b"old" in answer.body
    assert (b"[DONE]" in answer.body) == stream
    assert len(answer.all("content-length") + answer.all("transfer-encoding")) == 1
    fresh = await post(mesh.proxy_port, {**asked, "stream": False}, headers)
    assert said(fresh) == (200, "miss", "new")


async def test_without_a_stale_answer_trouble_passes(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """The caller sees what the provider said."""
    headers = rude.script(script, reply(500, {"error": {"message": "broken"}}))
    answer = await post(mesh.proxy_port, question("rescued"), headers)
    assert (answer.status, answer.json()["error"]["message"]) == (500, "broken")
