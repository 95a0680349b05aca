"""Prompts without personal data, answers with it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import orjson
import pytest

from ext_proc.answer_forms import EVENT_STREAM, JSON
from ext_proc.contract.policies import Policy, RedactionPolicy
from ext_proc.exchange import Answer, Exchange, Reason
from ext_proc.openai.completions import completion_body
from ext_proc.openai.paths import Operation
from ext_proc.openai.replays import replay
from ext_proc.question import question_key
from ext_proc.stages.redact import LARGE_BYTES, Redact
from tests.unit.ext_proc.exchanges import HELLO, Counted, exchange

PHONE = "13800138000"


def asked(text: str, **redaction: Any) -> Exchange:
    """Return an exchange that asks `text`, under a Policy that masks prompts."""
    opened = exchange(document={"model": "m", "messages": [{"role": "user", "content": text}]})
    opened.policy = Policy(redaction=RedactionPolicy(**{"prompts": True, **redaction}))
    return opened


def served(body: bytes, content_type: str) -> Answer:
    """Return an answer of our own."""
    return Answer(200, body, Reason.SERVED_FROM_CACHE, (("content-type", content_type),))


async def test_a_prompt_is_masked_and_its_items_are_counted() -> None:
    """The document that goes up has placeholders; the audit has numbers and no content."""
    counted, opened = Counted(), asked(f"call {PHONE} or {PHONE}, mail a@b.cn")
    assert await Redact(counted).on_request(opened) is None
    content = opened.parsed.document["messages"][0]["content"]
    assert content == "call [PHONE_1] or [PHONE_1], mail [EMAIL_1]"
    assert opened.changed
    assert opened.wants_head and opened.wants_body
    assert sorted(counted.pairs) == [("masked", "email"), ("masked", "phone"), ("masked", "phone")]


async def test_a_large_prompt_is_masked_while_others_go_on() -> None:
    """Reading it takes so long that the loop must not wait for it."""
    opened, turns, told = asked(f"{'word ' * (LARGE_BYTES // 5)} {PHONE}"), 0, []

    async def ask_for_time() -> None:
        told.append("wait")

    opened.ask_for_time = ask_for_time
    masking = asyncio.create_task(Redact(Counted()).on_request(opened))
    while not masking.done():
        await asyncio.sleep(0)
        turns += 1
    assert opened.parsed.document["messages"][0]["content"].endswith("word  [PHONE_1]")
    assert turns > 2
    assert told == ["wait"], "or Envoy would let it go as it came"


@pytest.mark.parametrize(
    "opened",
    [
        pytest.param(asked(f"call {PHONE}", prompts=False), id="not asked for"),
        pytest.param(asked(f"call {PHONE}", entities=("email",)), id="another entity"),
        pytest.param(asked("hello"), id="nothing in it"),
    ],
)
async def test_nothing_is_touched_without_need(opened: Exchange) -> None:
    """The body goes on byte for byte, and nobody asks for the answer."""
    assert await Redact(Counted()).on_request(opened) is None
    assert not (opened.changed or opened.wants_head or opened.wants_body or opened.masks)


async def test_vectors_repeat_nothing() -> None:
    """An embedding's input is masked, its answer is not looked at."""
    opened = exchange(document={"model": "m", "input": PHONE}, path="/v1/embeddings")
    opened.policy = Policy(redaction=RedactionPolicy(prompts=True))
    assert await Redact(Counted()).on_request(opened) is None
    assert opened.parsed.document["input"] == "[PHONE_1]"
    assert opened.masks is None


@pytest.mark.parametrize("stream", [False, True])
async def test_shared_answers_are_given_with_own_values(stream: bool) -> None:
    """Two callers ask one masked question; each gets the one answer with their own number."""
    body, kind = completion_body("m", "I call [PHONE_1].", created=0), JSON
    if stream:
        body, kind = b"".join(replay(Operation.CHAT, body, include_usage=False)), EVENT_STREAM
    keys = set()
    for phone in (PHONE, "13900139000"):
        stage, opened = Redact(Counted()), asked(f"call {phone}")
        await stage.on_request(opened)
        keys.add(question_key(opened))
        answer = stage.on_answer(opened, served(body, kind))
        assert f"I call {phone}." in answer.body.decode()
    assert len(keys) == 1


async def test_answers_to_others_are_the_same_object() -> None:
    """Whoever has nothing masked pays nothing."""
    opened, answer = exchange(document=HELLO), served(b'{"a": "[PHONE_1]"}', JSON)
    assert Redact(Counted()).on_answer(opened, answer) is answer


async def test_tool_arguments_come_back_as_json() -> None:
    """What the model calls a tool with has the caller's values."""
    stage, opened = Redact(Counted()), asked(f"call {PHONE}")
    await stage.on_request(opened)
    call = {"function": {"name": "dial", "arguments": '{"to": "[PHONE_1]"}'}}
    body = orjson.dumps({"choices": [{"message": {"content": None, "tool_calls": [call]}}]})
    answer = json.loads(stage.on_answer(opened, served(body, JSON)).body)
    arguments = answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"to": PHONE}
