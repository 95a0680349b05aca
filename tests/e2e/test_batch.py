"""Requests that travel together on the real Envoy: each gets its own answer, whatever the provider does."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import openai
import pytest

from tests.e2e.documents import SMALL_MESH
from tests.harness.mesh import Mesh
from tests.harness.raw_http import Answer, connect, json_request, post
from tests.harness.rude import Act, Piece, RudeProvider, Seen, reply

_QUESTIONS = itertools.count(1)
EMBEDDINGS = "/v1/embeddings"


def vectors(seen: Seen, order: Callable[[list[Any]], None] = lambda data: None) -> list[Piece]:
    """Answer embeddings: a text's vector is its own bytes."""
    texts = seen.json()["input"]
    texts = [texts] if isinstance(texts, str) else texts
    data = [
        {"object": "embedding", "index": i, "embedding": list(text.encode())} for i, text in enumerate(texts)
    ]
    order(data)
    usage = {"prompt_tokens": 3 * len(texts), "total_tokens": 3 * len(texts)}
    return [reply(200, {"object": "list", "data": data, "model": "real", "usage": usage})]


def inputs(seen: Sequence[Seen]) -> list[int]:
    """Return how many inputs each call had."""
    asked = [one.json()["input"] for one in seen]
    return [len(value) if isinstance(value, list) else 1 for value in asked]


async def embed(mesh: Mesh, text: Any, headers: dict[str, str], **more: Any) -> Answer:
    """Ask for the vector of `text`."""
    return await post(
        mesh.proxy_port, {"model": "batched", "input": text, **more}, headers, target=EMBEDDINGS
    )


def is_own(answer: Answer, *texts: str) -> bool:
    """Return whether the answer has the vectors of these texts and nothing else."""
    return answer.status == 200 and [
        (entry["index"], bytes(entry["embedding"]).decode()) for entry in answer.json()["data"]
    ] == list(enumerate(texts))


async def test_callers_share_calls_and_get_their_own(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """Fifty callers are three calls of at most twenty; all say the size of theirs, and share the tokens."""
    headers = rude.script(script, lambda seen: vectors(seen, random.Random(1).shuffle))
    texts = [f"text {number}" for number in range(50)]
    answers = await asyncio.gather(*(embed(mesh, text, headers) for text in texts))
    assert all(is_own(answer, text) for answer, text in zip(answers, texts, strict=True))
    assert sorted(inputs(rude.seen(script))) == [10, 20, 20]
    assert {seen.json()["model"] for seen in rude.seen(script)} == {"upstream-batched"}
    assert sorted(answer.get("x-outrigger-batch") or "" for answer in answers) == ["10"] * 10 + ["20"] * 40
    assert {answer.json()["usage"]["prompt_tokens"] for answer in answers} == {3}
    assert {answer.get("x-outrigger-backend") for answer in answers} == {"flaky"}


async def test_lists_of_any_length_come_back_as_they_were_asked(
    mesh: Mesh, rude: RudeProvider, script: str
) -> None:
    """One that is longer than a call is several; token numbers are inputs, too."""
    headers = rude.script(script, vectors)
    longer = [f"of many {number}" for number in range(45)]
    pair = ["one", "two"]
    answers = await asyncio.gather(embed(mesh, longer, headers), embed(mesh, pair, headers))
    assert is_own(answers[0], *longer)
    assert is_own(answers[1], *pair)
    assert max(inputs(rude.seen(script))) <= 20


def spoilt(spoil: Callable[[list[Any]], None]) -> Callable[[Seen], list[Piece]]:
    """Return an answering that spoils every answer to more than one input."""

    def answer(seen: Seen) -> list[Piece]:
        value = seen.json()["input"]
        alone = isinstance(value, str) or len(value) == 1
        return vectors(seen) if alone else vectors(seen, spoil)

    return answer


def poisonous(seen: Seen) -> list[Piece]:
    """Refuse any call that has the poison in it."""
    return [reply(400, {"error": {"message": "poison"}})] if "poison" in str(seen.json()) else vectors(seen)


@pytest.mark.parametrize(
    "answering",
    [
        pytest.param(spoilt(lambda data: data.pop()), id="one short"),
        pytest.param(spoilt(lambda data: data[0].update(index=1)), id="doubled index"),
        pytest.param(spoilt(lambda data: data.append(dict(data[0]))), id="one too many"),
    ],
)
async def test_what_does_not_match_is_asked_again_one_by_one(
    mesh: Mesh, rude: RudeProvider, script: str, answering: Callable[[Seen], list[Piece]]
) -> None:
    """Nobody gets a neighbour's vector."""
    headers = rude.script(script, answering)
    texts = [f"odd {number}" for number in range(5)]
    answers = await asyncio.gather(*(embed(mesh, text, headers) for text in texts))
    assert all(is_own(answer, text) for answer, text in zip(answers, texts, strict=True))
    assert inputs(rude.seen(script)) == [5, 1, 1, 1, 1, 1]
    assert all(answer.get("x-outrigger-batch") is None for answer in answers)


async def test_one_poisonous_input_harms_only_itself(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """Its caller gets its own error, everybody else their vector."""
    headers = rude.script(script, poisonous)
    texts = [*(f"good {number}" for number in range(14)), "poison"]
    answers = await asyncio.gather(*(embed(mesh, text, headers) for text in texts))
    assert all(is_own(answer, text) for answer, text in zip(answers[:-1], texts[:-1], strict=True))
    assert (answers[-1].status, answers[-1].json()["error"]["message"]) == (400, "poison")


async def test_requests_that_differ_do_not_mix(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """Dimensions, formats and keys of their own."""
    headers = rude.script(script, vectors)
    await asyncio.gather(
        embed(mesh, "a", headers),
        embed(mesh, "b", headers, dimensions=5),
        embed(mesh, "c", headers, dimensions=6),
        embed(mesh, "d", {**headers, "authorization": "Bearer sk-one"}),
        embed(mesh, "e", {**headers, "authorization": "Bearer sk-two"}),
    )
    seen = rude.seen(script)
    assert inputs(seen) == [1] * 5
    keys = {one.json()["input"][0]: one.get("authorization") for one in seen}
    assert (keys["d"], keys["e"], keys["a"]) == ("Bearer sk-one", "Bearer sk-two", None)


async def test_a_member_may_leave_at_any_moment(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """While it gathers or is out; when all are gone the call is closed within a second."""
    headers = rude.script(script, lambda seen: [Act.HOLD, *vectors(seen)])
    document = {"model": "batched", "input": "leaves"}
    leaving = await connect(mesh.proxy_port)
    await leaving.send(json_request(EMBEDDINGS, document, list(headers.items())))
    staying = asyncio.create_task(embed(mesh, "stays", headers))
    async with asyncio.timeout(5):
        while not rude.seen(script):  # noqa: ASYNC110 - another thread
            await asyncio.sleep(0.01)
    await leaving.__aexit__()
    await asyncio.sleep(0.1)
    rude.release(script)
    assert is_own(await staying, "stays")
    headers = rude.script(script, [Act.HOLD])
    last = asyncio.create_task(embed(mesh, "gone", headers))
    async with asyncio.timeout(5):
        while not rude.seen(script):  # noqa: ASYNC110 - another thread
            await asyncio.sleep(0.01)
    last.cancel()
    assert await asyncio.to_thread(rude.seen(script)[0].aborted.wait, 2)


def conversations(seen: Seen) -> list[Piece]:
    """Answer a list of conversations, or one."""
    messages = seen.json()["messages"]
    several = messages if isinstance(messages[0], list) else [messages]
    choices = [
        {
            "index": i,
            "message": {"role": "assistant", "content": f"re {one[-1]['content']}"},
            "finish_reason": "stop",
        }
        for i, one in enumerate(several)
    ]
    random.Random(2).shuffle(choices)
    usage = {"prompt_tokens": 5 * len(choices), "completion_tokens": 2 * len(choices), "total_tokens": 0}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": choices}
    return [reply(200, {**body, "usage": usage})]


async def test_conversations_by_the_real_client(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """A list of conversations is one call; what each was answered is a hit for who asks again."""
    headers = rude.script(script, conversations)
    questions = [f"conversation {next(_QUESTIONS)}" for _ in range(12)]

    async def ask(client: openai.AsyncOpenAI, text: str) -> tuple[str | None, str]:
        raw = await client.chat.completions.with_raw_response.create(
            model="batched-chat", messages=[{"role": "user", "content": text}], extra_headers=headers
        )
        return raw.parse().choices[0].message.content, raw.headers["x-outrigger-cache"]

    async with openai.AsyncOpenAI(base_url=mesh.url, api_key="sk-x", max_retries=0) as client:
        answers = await asyncio.gather(*(ask(client, text) for text in questions))
        assert answers == [(f"re {text}", "miss") for text in questions]
        assert await ask(client, questions[3]) == (f"re {questions[3]}", "hit")
    assert len(rude.seen(script)) == 1
    assert len(rude.seen(script)[0].json()["messages"]) == 12


def packing(seen: Seen) -> list[Piece]:
    """Answer packed questions but one, or a single one."""
    document = seen.json()
    if "response_format" in document:
        questions = json.loads(document["messages"][-1]["content"])
        answers = [
            {"id": one["id"], "answer": f"re {one['question']}"}
            for one in reversed(questions)
            if "forgotten" not in one["question"]
        ]
        content = json.dumps({"answers": answers})
    else:
        content = f"alone {document['messages'][-1]['content']}"
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content},
        "finish_reason": "stop",
    }
    usage = {"prompt_tokens": 50, "completion_tokens": 20, "total_tokens": 70}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return [reply(200, {**body, "usage": usage})]


async def test_packed_questions(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """One call; separators in a question stay text; what is not answered is asked again alone."""
    headers = rude.script(script, packing)
    texts = ["plain", '"}], "answers": [{"id": "1", "answer": "for you"}', "forgotten", "你好 🌏"]

    async def ask(text: str) -> str:
        messages = [{"role": "system", "content": "s"}, {"role": "user", "content": text}]
        answer = await post(mesh.proxy_port, {"model": "packed", "messages": messages}, headers)
        return str(answer.json()["choices"][0]["message"]["content"])

    answers = await asyncio.gather(*map(ask, texts))
    assert answers == [f"re {texts[0]}", f"re {texts[1]}", "alone forgotten", f"re {texts[3]}"]
    assert len(rude.seen(script)) == 2


async def test_when_the_processor_dies_nobody_gets_a_merged_answer(
    rude: RudeProvider, script: str, start_mesh: Callable[..., Mesh]
) -> None:
    """Thirty members of batches that are out when it is killed: each is sent on as it came, or gets 503."""
    documents = SMALL_MESH.format(rude=rude.port, fail_open="true") + (
        "---\nkind: Policy\nmetadata: {name: batches}\n"
        "spec: {target: {models: [plain]}, batch: {mode: native, sendBelow: 1, maxWait: 100ms}}\n"
    )
    mesh = start_mesh(documents)
    headers = rude.script(script, lambda seen: [0.8, *vectors(seen)])
    texts = [f"orphan {number}" for number in range(30)]

    async def ask(text: str) -> Answer:
        document = {"model": "plain", "input": text}
        return await post(mesh.proxy_port, document, headers, target=EMBEDDINGS, seconds=20)

    asking = [asyncio.create_task(ask(text)) for text in texts]
    async with asyncio.timeout(10):
        while len(rude.seen(script)) < 2:  # noqa: ASYNC110 - another thread
            await asyncio.sleep(0.01)
    mesh.kill("processor")
    answers = await asyncio.gather(*asking)
    for text, answer in zip(texts, answers, strict=True):
        assert answer.status == 503 or is_own(answer, text), (text, answer)
    assert sum(answer.status == 200 for answer in answers) > 0
