"""Equal requests in flight: one upstream call, whoever comes and goes."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.governed import ADMIN, SECOND, Governed, in_force
from tests.harness.mesh import Mesh
from tests.harness.processes import until
from tests.harness.raw_http import Answer, Connection, connect, json_request, post
from tests.harness.redis import RedisMissingError, RedisServer, redis_server
from tests.harness.rude import (
    STREAM_END,
    STREAM_HEAD,
    Act,
    Piece,
    RudeProvider,
    chunk,
    completion,
    delta,
    event,
    reply,
)

CHAT = "/v1/chat/completions"
# Whoever asks `slow` waits for company before it is sent.
DOCUMENTS = """\
kind: Backend
metadata: {{name: rude}}
spec: {{url: "http://127.0.0.1:{rude}/v1", default: true}}
---
kind: Model
metadata: {{name: m}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Model
metadata: {{name: never-purged}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Model
metadata: {{name: slow}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Policy
metadata: {{name: all}}
spec: {{coalesce: {{enabled: true}}}}
---
kind: Policy
metadata: {{name: slow}}
spec: {{target: {{models: [slow]}}, batch: {{mode: native, sendBelow: 1, maxWait: 1s}}}}
"""
DONE = chunk(b"data: [DONE]\n\n")
_QUESTIONS = itertools.count(1)


def question(model: str = "coalesced", **more: Any) -> dict[str, Any]:
    """Return a chat that nobody has asked before."""
    return {"model": model, "messages": [{"role": "user", "content": f"flight {next(_QUESTIONS)}"}], **more}


def status(answer: Answer) -> str | None:
    """Return what became of a request."""
    return answer.get("x-outrigger-cache")


def usage_chunk() -> bytes:
    """Return the chunk that include_usage asks for."""
    return chunk(event({**delta(), "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3}}))


def slowly(*texts: str, gap: float = 0.3) -> list[Piece]:
    """Return a stream of `texts`, with a pause before each and the usage at its end."""
    pieces: list[Piece] = [STREAM_HEAD]
    for text in texts:
        pieces += [gap, chunk(event(delta(text)))]
    return [*pieces, chunk(event(delta(finish="stop"))), usage_chunk(), DONE, STREAM_END]


def text_of(body: bytes) -> str:
    """Return the joined text of a stream."""
    chunks = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: {")]
    return "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"])


async def open_stream(mesh: Mesh, document: dict[str, Any], headers: dict[str, str]) -> Connection:
    """Send a request and return its connection, the answer unread."""
    connection = await connect(mesh.proxy_port)
    await connection.send(json_request(CHAT, document, list(headers.items())))
    return connection


async def seen(rude: RudeProvider, script: str, number: int) -> None:
    """Wait until the provider has got `number` requests of a script."""
    async with asyncio.timeout(5):
        while len(rude.seen(script)) < number:  # noqa: ASYNC110 - the provider is in another thread
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("model", ["coalesced", "coalesced-and-cached"])
async def test_fifty_equal_requests_are_one_call(
    mesh: Mesh, rude: RudeProvider, script: str, model: str
) -> None:
    """Equal answers, the followers marked; other seeds, temperatures and tenants are other questions."""
    headers = rude.script(script, [0.5, reply(200, completion("shared"))])
    document = question(model)
    answers = await asyncio.gather(*(post(mesh.proxy_port, document, headers) for _ in range(50)))
    assert len(rude.seen(script)) == 1
    assert {answer.body for answer in answers} == {answers[0].body}
    assert [status(answer) for answer in answers].count("coalesced") == 49
    others = [{**document, "seed": 2}, {**document, "temperature": 0.1}]
    other_tenant = {**headers, "authorization": "Bearer sk-somebody-else"}
    await asyncio.gather(
        *(post(mesh.proxy_port, one, headers) for one in others),
        post(mesh.proxy_port, document, other_tenant),
    )
    assert len(rude.seen(script)) == 4


async def test_a_failure_is_shared_with_nobody(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """The leader gets its error, the others ask by themselves, and so does the next."""
    failed: list[Piece] = [
        0.3,
        reply(400, {"error": {"message": "no", "type": "x", "param": None, "code": None}}),
    ]
    headers = rude.script(script, failed, reply(200, completion("alone")))
    document = question()
    leading = asyncio.create_task(post(mesh.proxy_port, document, headers))
    await seen(rude, script, 1)
    followers = await asyncio.gather(*(post(mesh.proxy_port, document, headers) for _ in range(3)))
    assert (await leading).status == 400
    assert [answer.status for answer in followers] == [200] * 3
    assert len(rude.seen(script)) == 4


async def test_followers_of_a_stream_read_it_live(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """What came before at once, then each part as it comes; with usage only for those who asked for it."""
    headers = rude.script(script, slowly("a", "b", "c", "d", gap=0.4))
    document = question(stream=True)
    leader = asyncio.create_task(post(mesh.proxy_port, document, headers))
    await seen(rude, script, 1)
    early = asyncio.create_task(post(mesh.proxy_port, document, headers))
    asking = asyncio.create_task(
        post(mesh.proxy_port, {**document, "stream_options": {"include_usage": True}}, headers)
    )
    as_json = asyncio.create_task(post(mesh.proxy_port, {**document, "stream": False}, headers))
    await asyncio.sleep(0.9)  # "a" and "b" have been said
    late = await open_stream(mesh, document, headers)
    began = time.monotonic()
    code, head = await late.receive_head()
    first = await late.receive_chunk()
    assert time.monotonic() - began < 0.35
    assert (code, text_of(first)) == (200, "ab")
    rest = b""
    while part := await late.receive_chunk():
        rest += part
    assert text_of(first + rest) == "abcd"
    assert dict(head)["x-outrigger-cache"] == "coalesced"
    answers = [await leader, await early, await asking]
    assert [text_of(answer.body) for answer in answers] == ["abcd"] * 3
    assert [b'"usage"' in answer.body for answer in answers] == [False, False, True]
    assert [answer.body.count(b"[DONE]") for answer in answers] == [1, 1, 1]
    assert (await as_json).json()["choices"][0]["message"]["content"] == "abcd"
    assert status(await as_json) == "coalesced"
    assert len(rude.seen(script)) == 1


async def test_a_stream_may_follow_a_json_call(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """It gets the answer as a stream once it is there."""
    headers = rude.script(script, [0.4, reply(200, completion("whole"))])
    document = question()
    leader = asyncio.create_task(post(mesh.proxy_port, document, headers))
    await seen(rude, script, 1)
    follower = await post(mesh.proxy_port, {**document, "stream": True}, headers)
    assert (text_of(follower.body), status(follower)) == ("whole", "coalesced")
    await leader
    assert len(rude.seen(script)) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_the_leader_leaves_while_the_provider_thinks(
    mesh: Mesh, rude: RudeProvider, script: str, stream: bool
) -> None:
    """Those who wait get the whole answer, at the price of one more call."""
    answer = slowly("a", "b", gap=0.1) if stream else [reply(200, completion("ab"))]
    headers = rude.script(script, [Act.HOLD], answer)
    document = question(stream=stream)
    leader = await open_stream(mesh, document, headers)
    await seen(rude, script, 1)
    followers = [asyncio.create_task(post(mesh.proxy_port, document, headers)) for _ in range(3)]
    await asyncio.sleep(0.4)
    await leader.__aexit__()
    for follower in await asyncio.gather(*followers):
        text = text_of(follower.body) if stream else follower.json()["choices"][0]["message"]["content"]
        assert (follower.status, text) == (200, "ab")
    assert len(rude.seen(script)) == 2
    assert await asyncio.to_thread(rude.seen(script)[0].aborted.wait, 2)


async def test_the_leader_leaves_in_mid_stream(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """Each piece reaches a follower once, those that both calls said too."""
    headers = rude.script(script, slowly("a", "b", "c", "d"), slowly("ab", "c", "d", gap=0.05))
    document = question(stream=True)
    leader = await open_stream(mesh, document, headers)
    await seen(rude, script, 1)
    followers = [asyncio.create_task(post(mesh.proxy_port, document, headers)) for _ in range(3)]
    await leader.receive_head()
    await leader.receive_chunk()
    await leader.__aexit__()
    answers = await asyncio.gather(*followers)
    assert [text_of(answer.body) for answer in answers] == ["abcd"] * 3
    assert [answer.body.count(b'"stop"') for answer in answers] == [1] * 3
    assert [answer.body.count(b"[DONE]") for answer in answers] == [1] * 3
    assert len(rude.seen(script)) == 2


async def test_another_answer_does_not_continue_a_stream(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """A provider that now says something else: the follower's stream is cut, not mixed."""
    headers = rude.script(script, slowly("a", "b", "c"), slowly("x", "y", gap=0.05))
    document = question(stream=True)
    leader = await open_stream(mesh, document, headers)
    await seen(rude, script, 1)
    follower = await open_stream(mesh, document, headers)
    await leader.receive_head()
    await leader.receive_chunk()
    await follower.receive_head()
    first = await follower.receive_chunk()
    await leader.__aexit__()
    rest = b""
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError, ValueError)):
        while True:
            rest += await follower.receive_chunk()
            assert rest.count(b"x") == 0
    assert text_of(first).startswith("a")
    assert b"[DONE]" not in rest


@pytest.mark.parametrize("stream", [False, True])
async def test_when_all_have_left_the_call_is_closed(
    mesh: Mesh, rude: RudeProvider, script: str, stream: bool
) -> None:
    """Within a second, the one that took over too."""
    headers = rude.script(script, [Act.HOLD])
    document = question(stream=stream)
    leader = await open_stream(mesh, document, headers)
    await seen(rude, script, 1)
    follower = await open_stream(mesh, document, headers)
    await asyncio.sleep(0.3)
    await leader.__aexit__()
    await seen(rude, script, 2)
    await follower.__aexit__()
    for call in rude.seen(script):
        assert await asyncio.to_thread(call.aborted.wait, 2)


async def test_a_stream_that_is_cut_is_cut_for_all(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """No made-up finish; the flight's own call may end it instead."""
    headers = rude.script(
        script, [STREAM_HEAD, chunk(event(delta("a"))), 0.5, Act.RESET], slowly("a", "b", gap=0.05)
    )
    document = question(stream=True)
    leader = await open_stream(mesh, document, headers)
    await seen(rude, script, 1)
    follower = await post(mesh.proxy_port, document, headers)
    assert text_of(follower.body) == "ab"
    await leader.__aexit__()


async def test_an_answer_in_one_piece_to_a_stream(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """A provider that does not stream: the followers get a stream all the same."""
    headers = rude.script(script, [0.4, reply(200, completion("whole"))])
    document = question(stream=True)
    leader = asyncio.create_task(post(mesh.proxy_port, document, headers))
    await seen(rude, script, 1)
    follower = await post(mesh.proxy_port, document, headers)
    assert text_of(follower.body) == "whole"
    assert (await leader).json()["choices"][0]["message"]["content"] == "whole"


async def test_twenty_mib_are_asked_once(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """And once more when the leader leaves, byte for byte."""
    document = question(stream=True)
    document["messages"][0]["content"] += "x" * 20 * 1024 * 1024
    headers = rude.script(script, [Act.HOLD], slowly("a", gap=0.1))
    leader = await open_stream(mesh, document, headers)
    await seen(rude, script, 1)
    followers = [asyncio.create_task(post(mesh.proxy_port, document, headers, seconds=30)) for _ in range(3)]
    await asyncio.sleep(0.2)
    await leader.__aexit__()
    assert {text_of(answer.body) for answer in await asyncio.gather(*followers)} == {"a"}
    bodies = [call.body for call in rude.seen(script)]
    assert len(bodies) == 2
    assert bodies[0] == bodies[1]


async def test_a_thousand_at_once_are_one_call(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """JSON and stream together: one upstream call, everybody answered."""
    headers = rude.script(script, [2.0, *slowly("a", "b", gap=0.05)])
    document = question(stream=True)
    leader = asyncio.create_task(post(mesh.proxy_port, document, headers, seconds=60))
    await seen(rude, script, 1)
    asked = [
        post(mesh.proxy_port, {**document, "stream": number % 2 == 0}, headers, seconds=60)
        for number in range(1000)
    ]
    answers = await asyncio.gather(*asked)
    assert {answer.status for answer in answers} == {200}
    texts = {
        text_of(answer.body) if number % 2 == 0 else answer.json()["choices"][0]["message"]["content"]
        for number, answer in enumerate(answers)
    }
    assert texts == {"ab"}
    assert (await leader).status == 200
    # Those who came when it was over ask anew.
    assert len(rude.seen(script)) <= 2


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis."""
    try:
        with redis_server(Path(tmp_path_factory.mktemp("redis"))) as started:
            yield started
    except RedisMissingError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def pair(
    rude: RudeProvider, redis: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Mesh, Mesh]]:
    """Two meshes that share a Redis."""
    options = ("--admin-token", ADMIN, "--redis", redis.url)
    documents = DOCUMENTS.format(rude=rude.port)
    with ExitStack() as running:
        one, other = (
            running.enter_context(Mesh(tmp_path_factory.mktemp(name), documents, options))
            for name in ("one", "other")
        )
        yield one, other


def said(answer: Answer) -> str:
    """Return the text of a JSON answer."""
    return str(answer.json()["choices"][0]["message"]["content"])


async def test_who_comes_after_a_purge_is_answered_by_a_new_call(
    pair: tuple[Mesh, Mesh], rude: RudeProvider, script: str
) -> None:
    """Here and where another processor leads since before; who waited gets what it waits for."""
    one, other = pair
    headers = rude.script(script, [Act.HOLD, reply(200, completion("old"))], reply(200, completion("new")))
    document = question("m")
    before = [asyncio.create_task(post(one.proxy_port, document, headers))]
    await seen(rude, script, 1)
    before += [asyncio.create_task(post(one.proxy_port, document, headers)) for _ in range(3)]
    await asyncio.sleep(0.2)
    for mesh in pair:
        governed = Governed(mesh)
        assert governed.api.post("/cache/purge", json={"model": "m"}).status_code == 200
        await asyncio.to_thread(until, lambda g=governed: in_force(g), SECOND, "the purge is in force")
    for mesh in (one, other):
        after = await post(mesh.proxy_port, document, headers)
        assert (after.status, said(after)) == (200, "new")
    assert not any(task.done() for task in before)
    rude.release(script)
    assert {said(answer) for answer in await asyncio.gather(*before)} == {"old"}
    assert len(rude.seen(script)) == 3


async def test_a_leader_that_leaves_before_it_is_sent_costs_no_call(
    pair: tuple[Mesh, Mesh], rude: RudeProvider, script: str
) -> None:
    """It waits for company; of thirty others one takes its place, and the next when that leaves, too."""
    mesh, _ = pair
    vector = {"object": "embedding", "index": 0, "embedding": [1.0]}
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    answered = {"object": "list", "data": [vector], "model": "slow", "usage": usage}
    headers = rude.script(script, [reply(200, answered)])
    document = {"model": "slow", "input": script}
    leaving = []
    for _ in range(2):
        connection = await connect(mesh.proxy_port)
        await connection.send(json_request("/v1/embeddings", document, list(headers.items())))
        leaving.append(connection)
        await asyncio.sleep(0.15)
    others = [
        asyncio.create_task(post(mesh.proxy_port, document, headers, target="/v1/embeddings"))
        for _ in range(30)
    ]
    for connection in leaving:
        await asyncio.sleep(0.15)
        await connection.__aexit__()
    answers = await asyncio.gather(*others)
    assert {answer.status for answer in answers} == {200}
    assert [status(answer) for answer in answers].count("coalesced") == 29
    assert len(rude.seen(script)) == 1


async def test_a_redis_that_forgets_who_leads_costs_one_call(
    pair: tuple[Mesh, Mesh], rude: RudeProvider, redis: RedisServer, script: str
) -> None:
    """Of twenty at the other sidecar one goes up, for all of them."""
    one, other = pair
    for attempt in range(5):
        # A Redis that does not say within 20 ms who leads is not waited for: a busy machine may be so slow.
        named = f"{script}-{attempt}"
        headers = rude.script(
            named, [Act.HOLD, reply(200, completion("first"))], [0.5, reply(200, completion("second"))]
        )
        document = question("never-purged")
        leader = asyncio.create_task(post(one.proxy_port, document, headers))
        await seen(rude, named, 1)
        others = [asyncio.create_task(post(other.proxy_port, document, headers)) for _ in range(20)]
        await asyncio.sleep(0.5)
        followed = len(rude.seen(named)) == 1
        redis.command("FLUSHALL")
        answers = await asyncio.gather(*others)
        rude.release(named)
        assert said(await leader) == "first"
        assert {said(answer) for answer in answers} == {"second"}
        assert len(rude.seen(named)) == 2
        if followed:
            break
    assert followed
