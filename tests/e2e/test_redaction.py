"""Prompts that leave without personal data, on the real Envoy: only the caller ever sees it."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.e2e.documents import PROVIDER_KEY
from tests.e2e.governed import lent
from tests.harness.mesh import Mesh
from tests.harness.processes import until
from tests.harness.raw_http import Answer, connect, json_request, post
from tests.harness.rude import (
    STREAM_END,
    STREAM_HEAD,
    Act,
    Piece,
    RudeProvider,
    Seen,
    chunk,
    completion,
    delta,
    event,
    reply,
    stream_events,
    stream_reply,
)

DOCUMENTS = """\
kind: Backend
metadata: {{name: rude}}
spec:
  url: "http://127.0.0.1:{rude}/v1"
  default: true
  credentials: {{env: E2E_PROVIDER_KEY}}
---
kind: Model
metadata: {{name: masked}}
spec: {{versions: [{{name: v1, backend: rude, upstreamModel: upstream-masked}}]}}
---
kind: Backend
metadata: {{name: failing}}
spec: {{url: "http://127.0.0.1:{rude}/failing"}}
---
kind: Model
metadata: {{name: falling}}
spec: {{versions: [{{name: v1, backend: failing, upstreamModel: upstream-falling}}], fallbacks: [masked]}}
---
kind: Model
metadata: {{name: shared}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Model
metadata: {{name: cards}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Model
metadata: {{name: open}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Pin
metadata: {{name: pinned}}
spec:
  model: masked
  match: {{lastUserMessage: "my number is 13800138000"}}
  answer: "So is mine: 13900139000"
---
kind: Policy
metadata: {{name: everyone}}
spec:
  redaction: {{prompts: true}}
  session: {{enabled: true}}
  retry: {{attempts: 3, base: 25ms, max: 50ms}}
---
kind: Policy
metadata: {{name: shared}}
spec:
  target: {{models: [shared]}}
  cache: {{enabled: true}}
  coalesce: {{enabled: true}}
  batch: {{mode: native, sendBelow: 1, maxWait: 200ms}}
---
kind: Policy
metadata: {{name: cards}}
spec: {{target: {{models: [cards]}}, redaction: {{entities: [card]}}}}
---
kind: Policy
metadata: {{name: open}}
spec: {{target: {{models: [open]}}, redaction: {{prompts: false}}}}
"""
PHONE, OTHER = "13800138000", "13900139000"
IDENTITY = "11010519491231002X"
CARD = "4111111111111111"
MAIL = "zhang.san@mail.example.com"
SECRET = "sk-live-a1b2c3d4e5f6"
EVERYTHING = (PHONE, OTHER, IDENTITY, CARD, MAIL, SECRET)
_QUESTIONS = itertools.count(1)


@pytest.fixture(scope="module")
def masking(mesh: Mesh, rude: RudeProvider) -> Iterator[Mesh]:
    """A mesh that masks every prompt."""
    with lent(mesh, DOCUMENTS.format(rude=rude.port)):
        yield mesh


def asking(*contents: Any, model: str = "masked", **more: Any) -> dict[str, Any]:
    """Return a chat of user messages."""
    return {"model": model, "messages": [{"role": "user", "content": one} for one in contents], **more}


def fresh(text: str) -> str:
    """Return a question that nobody has asked before."""
    return f"question {next(_QUESTIONS)}: {text}"


def echo(seen: Seen) -> list[Piece]:
    """Repeat the last message, as JSON or, in pieces of three characters, as a stream."""
    document = seen.json()
    text = document["messages"][-1]["content"]
    if not document.get("stream"):
        return [reply(200, completion(text))]
    return stream_reply(stream_events(*(text[at : at + 3] for at in range(0, len(text), 3))))


def text_of(answer: Answer) -> str:
    """Return what a JSON answer or a stream says."""
    if (answer.get("content-type") or "").startswith("application/json"):
        return str(answer.json()["choices"][0]["message"]["content"])
    chunks = [
        json.loads(line[6:]) for line in answer.body.decode().splitlines() if line.startswith("data: {")
    ]
    return "".join(choice["delta"].get("content") or "" for one in chunks for choice in one["choices"])


def raw(seen: list[Seen]) -> str:
    """Return everything that the provider has read."""
    return "\n".join(f"{one.target}\n{one.headers}\n{one.body.decode()}" for one in seen)


@pytest.mark.parametrize("stream", [False, True])
async def test_the_provider_never_sees_it_and_the_caller_does(
    masking: Mesh, rude: RudeProvider, script: str, stream: bool
) -> None:
    """Six items, two side by side, emoji before them: each replaced whole, the rest to the character."""
    headers = rude.script(script, echo)
    text = f"😀👨‍👩‍👧 {PHONE}{IDENTITY} {MAIL}，{CARD};{OTHER}|{SECRET} 末 {PHONE}"
    answer = await post(masking.proxy_port, asking(text, stream=stream), headers)
    assert (answer.status, text_of(answer)) == (200, text)
    (seen,) = rude.seen(script)
    assert seen.json()["messages"][0]["content"] == (
        "😀👨‍👩‍👧 [PHONE_1][IDENTITY_1] [EMAIL_1]，[CARD_1];[PHONE_2]|[KEY_1] 末 [PHONE_1]"
    )
    # A stream that nobody records is not asked for its usage.
    assert "stream_options" not in seen.json()


async def test_every_place_of_a_prompt(masking: Mesh, rude: RudeProvider, script: str) -> None:
    """System, user, parts, tool arguments and results; what was JSON still is."""
    headers = rude.script(script, reply(200, completion()))
    function = {"name": "dial", "arguments": json.dumps({"to": PHONE, "n": int(OTHER), "why": f"问\n{MAIL}"})}
    document = {
        "model": "masked",
        "user": MAIL,
        "messages": [
            {"role": "system", "content": f"Write to {MAIL}."},
            {"role": "user", "content": [{"type": "text", "text": f"pay {CARD}"}]},
            {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": "c1", "content": json.dumps({"id": IDENTITY, "key": SECRET})},
        ],
    }  # fmt: skip
    assert (await post(masking.proxy_port, document, headers)).status == 200
    (seen,) = rude.seen(script)
    assert not [item for item in EVERYTHING if item in raw([seen])]
    messages = seen.json()["messages"]
    sent = json.loads(messages[2]["tool_calls"][0]["function"]["arguments"])
    assert sent == {"to": "[PHONE_1]", "n": "[PHONE_2]", "why": "问\n[EMAIL_1]"}
    assert json.loads(messages[3]["content"]) == {"id": "[IDENTITY_1]", "key": "[KEY_1]"}


async def test_tool_calls_come_back_with_values(masking: Mesh, rude: RudeProvider, script: str) -> None:
    """As JSON and as a stream in which two calls are told in turns, each placeholder cut."""

    def call(index: int, arguments: str, **more: Any) -> dict[str, Any]:
        return {"index": index, "function": {"arguments": arguments}, **more}

    def part(*calls: dict[str, Any]) -> bytes:
        choice = {"index": 0, "delta": {"tool_calls": list(calls)}, "finish_reason": None}
        return event({**delta(), "choices": [choice]})

    events = [
        part(call(0, "", id="a", type="function"), call(1, "", id="b", type="function")),
        part(call(0, '{"to": "[PHO')), part(call(1, '{"to": "[PHONE_')), part(call(0, 'NE_1]"}')),
        part(call(1, '2]"}')), event(delta(finish="tool_calls")), b"data: [DONE]\n\n",
    ]  # fmt: skip
    headers = rude.script(script, stream_reply(events))
    client = openai.AsyncOpenAI(base_url=masking.url, api_key="unused", default_headers=headers)
    told = {0: "", 1: ""}
    question = [{"role": "user", "content": f"{PHONE} {OTHER}"}]
    async with await client.chat.completions.create(
        model="masked",
        messages=question,
        stream=True,
    ) as stream:
        async for one in stream:
            for each in one.choices[0].delta.tool_calls or ():
                told[each.index] += each.function.arguments
    await client.close()
    assert [json.loads(text) for text in told.values()] == [{"to": PHONE}, {"to": OTHER}]


@pytest.mark.parametrize("size", [1, 7, 64])
async def test_bytes_of_a_stream_may_be_cut_anywhere(
    masking: Mesh, rude: RudeProvider, script: str, size: int
) -> None:
    """Between two writes of the provider, within an event and a character."""
    stream = b"".join(stream_events("电话 [PHONE", "_1] [PHO", "TO] [", "EMAIL_1]"))
    pieces: list[Piece] = [STREAM_HEAD]
    pieces += [chunk(stream[at : at + size]) for at in range(0, len(stream), size)]
    headers = rude.script(script, [*pieces, STREAM_END])
    answer = await post(masking.proxy_port, asking(f"{PHONE} {MAIL}", stream=True), headers)
    assert text_of(answer) == f"电话 {PHONE} [PHOTO] {MAIL}"


@pytest.mark.parametrize("stream", [False, True])
async def test_half_a_surrogate_pair_hides_no_placeholder(
    masking: Mesh, rude: RudeProvider, script: str, stream: bool
) -> None:
    """Which JSON does not have, and clients read: the caller reads the value beside it."""
    whole = [reply(200, completion("[PHONE_1] \ud83d"))]
    events = [one.replace(b"HALF", rb"\ud83d") for one in stream_events("[PHO", "NE_1] HALF")]
    pieces = stream_reply(events) if stream else whole
    headers = rude.script(script, pieces)
    answer = await post(masking.proxy_port, asking(fresh(PHONE), stream=stream), headers)
    assert (answer.status, text_of(answer)) == (200, f"{PHONE} \ud83d")


async def test_addresses_in_any_script_are_replaced_whole(
    masking: Mesh, rude: RudeProvider, script: str
) -> None:
    """With accents, without blanks around them, and in Chinese from end to end."""
    headers = rude.script(script, echo)
    text = "an jörg.müller@firma.de und x@bücher.de, 请发邮件到a@b.com谢谢：用户@例子.公司。"
    answer = await post(masking.proxy_port, asking(text), headers)
    assert (answer.status, text_of(answer)) == (200, text)
    (seen,) = rude.seen(script)
    assert seen.json()["messages"][0]["content"] == (
        "an [EMAIL_1] und [EMAIL_2], 请发邮件到[EMAIL_3]谢谢：[EMAIL_4]。"
    )


async def test_text_is_not_delayed(masking: Mesh, rude: RudeProvider, script: str) -> None:
    """What cannot be a placeholder is there before the provider goes on."""
    first = chunk(event(delta("early [PHO")))
    rest = [chunk(one) for one in stream_events("NE_1]")]
    headers = rude.script(script, [STREAM_HEAD, first, Act.HOLD, *rest, STREAM_END])
    async with await connect(masking.proxy_port) as connection, asyncio.timeout(10):
        asked = asking(PHONE, stream=True)
        await connection.send(json_request("/v1/chat/completions", asked, list(headers.items())))
        await connection.receive_head()
        early = await connection.receive_chunk()
        assert b'"early "' in early
        rude.release(script)
        late = b""
        while piece := await connection.receive_chunk():
            late += piece
        assert PHONE.encode() in late


async def test_precision(masking: Mesh, rude: RudeProvider, script: str) -> None:
    """Nothing that only looks like personal data changes: the body arrives byte for byte."""
    headers = rude.script(script, reply(200, completion()))
    text = (
        "550e8400-e29b-41d4-a716-446655440000 1700000000000 order 4111111111111112 2024-01-15 12:34:56 "
        "deadbeef13800138000cafe こんにちは、今日は2024年1月15日です。 basic understanding"
    )
    document = asking(text)
    assert (await post(masking.proxy_port, document, headers)).status == 200
    assert rude.seen(script)[0].json()["messages"] == document["messages"]


async def test_answers_are_shared_and_values_are_not(masking: Mesh, rude: RudeProvider, script: str) -> None:
    """One call; a hit has the values of who asked, in either form. What is kept is the masked answer."""
    headers = rude.script(script, echo)
    text = fresh("call %s")
    answers = [
        await post(masking.proxy_port, asking(text % number, model="shared", stream=stream), headers)
        for number, stream in ((PHONE, True), (OTHER, False), (OTHER, True), ("13700137000", False))
    ]
    assert [answer.get("x-outrigger-cache") for answer in answers] == ["miss", "hit", "hit", "hit"]
    assert [text_of(answer) for answer in answers] == [
        text % number for number in (PHONE, OTHER, OTHER, "13700137000")
    ]
    assert len(rude.seen(script)) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_followers_have_their_own_values(
    masking: Mesh, rude: RudeProvider, script: str, stream: bool
) -> None:
    """Of a flight whose leader has others; a live stream, too."""
    headers = rude.script(script, lambda seen: [0.3, *echo(seen)])
    text = fresh("call %s or [PHOTO]")
    numbers = [PHONE, OTHER, "13700137000"]
    answers = await asyncio.gather(
        *(
            post(masking.proxy_port, asking(text % one, model="shared", stream=stream), headers)
            for one in numbers
        )
    )
    assert [text_of(answer) for answer in answers] == [text % one for one in numbers]
    kinds = sorted(str(answer.get("x-outrigger-cache")) for answer in answers)
    assert kinds == ["coalesced", "coalesced", "miss"]
    assert len(rude.seen(script)) == 1


async def test_embeddings_and_batches(masking: Mesh, rude: RudeProvider, script: str) -> None:
    """Inputs are masked before they travel together; completions come back with their own values."""

    def answer(seen: Seen) -> list[Piece]:
        prompts = seen.json()["prompt"]
        texts = [prompts] if isinstance(prompts, str) else prompts
        choices = [{"index": i, "text": text, "finish_reason": "stop"} for i, text in enumerate(texts)]
        return [reply(200, {"object": "text_completion", "model": "x", "choices": choices})]

    headers = rude.script(script, answer)
    prompts = [fresh(f"call {number}") for number in (PHONE, OTHER)]
    answers = await asyncio.gather(
        *(
            post(masking.proxy_port, {"model": "shared", "prompt": one}, headers, target="/v1/completions")
            for one in prompts
        )
    )
    assert [one.json()["choices"][0]["text"] for one in answers] == prompts
    assert {one.get("x-outrigger-batch") for one in answers} == {"2"}
    embedded = {"model": "masked", "input": [f"a {PHONE}", MAIL]}
    await post(masking.proxy_port, embedded, headers | rude.script(f"{script}-e"), target="/v1/embeddings")
    assert rude.seen(f"{script}-e")[0].json()["input"] == ["a [PHONE_1]", "[EMAIL_1]"]
    assert not [item for item in EVERYTHING if item in raw(rude.seen(script) + rude.seen(f"{script}-e"))]


async def test_a_second_try_carries_the_same_masked_body(
    masking: Mesh, rude: RudeProvider, script: str
) -> None:
    """With the version's model and the Backend's key; a value is nowhere in it."""
    headers = rude.script(script, reply(503, {"error": {"message": "busy"}}), echo)
    answer = await post(masking.proxy_port, asking(f"call {PHONE}"), headers)
    assert (answer.status, text_of(answer)) == (200, f"call {PHONE}")
    first, second = rude.seen(script)
    assert first.body == second.body
    for seen in (first, second):
        assert seen.json()["model"] == "upstream-masked"
        assert seen.get("authorization") == f"Bearer {PROVIDER_KEY}"
        assert PHONE not in raw([seen])


@pytest.mark.parametrize("stream", [False, True])
async def test_another_model_stands_in_with_the_same_masks(
    masking: Mesh, rude: RudeProvider, script: str, stream: bool
) -> None:
    """Each attempt has its own model and key, none has a value, and the answer has all of them."""

    def answer(seen: Seen) -> list[Piece]:
        return [reply(500, {"error": {"message": "down"}})] if "/failing/" in seen.target else echo(seen)

    headers = rude.script(script, answer)
    text = f"call {PHONE} {MAIL}"
    got = await post(masking.proxy_port, asking(text, model="falling", stream=stream), headers)
    assert (got.status, text_of(got)) == (200, text)
    *failed, last = rude.seen(script)
    assert {seen.json()["model"] for seen in failed} == {"upstream-falling"}
    assert (last.json()["model"], last.get("authorization")) == ("upstream-masked", f"Bearer {PROVIDER_KEY}")
    assert {seen.json()["messages"][0]["content"] for seen in (*failed, last)} == {"call [PHONE_1] [EMAIL_1]"}
    assert not [item for item in (PHONE, MAIL) if item in raw([*failed, last])]


@pytest.mark.parametrize("stream", [False, True])
async def test_sessions_keep_what_the_caller_said(
    masking: Mesh, rude: RudeProvider, script: str, stream: bool
) -> None:
    """And all of it is masked anew each time it goes up."""
    headers = {**rude.script(script, echo), "x-outrigger-session": script}
    for text in (f"I am {PHONE}", f"not {OTHER}"):
        answer = await post(masking.proxy_port, asking(text, stream=stream), headers)
        assert text_of(answer) == text
    _, second = rude.seen(script)
    contents = [message["content"] for message in second.json()["messages"]]
    assert contents == ["I am [PHONE_1]", "I am [PHONE_1]", "not [PHONE_2]"]


async def test_pins_match_what_the_caller_wrote(masking: Mesh, rude: RudeProvider, script: str) -> None:
    """Their answers are given as they are written."""
    headers = rude.script(script)
    answer = await post(masking.proxy_port, asking(f"my number is {PHONE}"), headers)
    assert text_of(answer) == f"So is mine: {OTHER}"
    assert rude.seen(script) == []


async def test_a_policy_says_what_and_whether(masking: Mesh, rude: RudeProvider, script: str) -> None:
    """One Model masks cards only, another one nothing."""
    headers = rude.script(script, echo)
    text = f"{PHONE} {CARD}"
    for model, sent in (("cards", f"{PHONE} [CARD_1]"), ("open", text)):
        answer = await post(masking.proxy_port, asking(text, model=model), headers)
        assert text_of(answer) == text
        assert rude.seen(script)[-1].json()["messages"][0]["content"] == sent


async def test_errors_of_the_provider_pass_byte_for_byte(
    masking: Mesh, rude: RudeProvider, script: str
) -> None:
    """Also when they quote a placeholder."""
    error = {"error": {"message": "Invalid: [PHONE_1]", "type": "x", "param": None, "code": None}}
    headers = rude.script(script, reply(400, error))
    answer = await post(masking.proxy_port, asking(PHONE), headers)
    assert (answer.status, answer.json()) == (400, error)


async def test_counted_and_in_no_log_and_no_metric(masking: Mesh, rude: RudeProvider, script: str) -> None:
    """The audit has numbers by entity, and nothing anywhere has a value."""
    text = " ".join(EVERYTHING)

    def counted() -> float:
        lines = masking.metrics().splitlines()
        found = [line for line in lines if line.startswith('outrigger_masked_items_total{entity="identity"}')]
        return float(found[0].rsplit(" ", 1)[1]) if found else 0.0

    before = counted()
    for answer in (reply(200, completion(text)), reply(400, {"error": {"message": text}})):
        headers = rude.script(script, answer)
        await post(masking.proxy_port, asking(text), headers)
    until(lambda: counted() == before + 2, 5, "both prompts are counted")
    written = masking.log() + masking.metrics()
    assert not [item for item in EVERYTHING if item in written]
