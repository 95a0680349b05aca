"""Fixed answers to exact messages."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from ext_proc.contract.snapshot import Model, Version
from ext_proc.exchange import Answer, CacheStatus, Reason
from ext_proc.stages.pin import Pin
from ext_proc.tally import CacheTally
from tests.unit.ext_proc.exchanges import HELLO, exchange, snapshot

PINNED = Model("m", (Version("v1", "b", "m"),), pins={"hello": "Welcome!", "": "Say something."})


async def ask(document: dict[str, Any], **fields: Any) -> tuple[Answer | None, CacheTally]:
    """Take a request through the stage."""
    opened, tally = exchange(snapshot(models={"m": PINNED}), document, **fields), CacheTally()
    opened.model = PINNED
    opened.version = PINNED.versions[0]
    answer = await Pin(lambda: 1_700_000_000.5, tally).on_request(opened)
    assert answer is None or isinstance(answer, Answer)
    assert (opened.cache_status is CacheStatus.HIT) == (answer is not None)
    return answer, tally


async def test_a_pin_answers_with_a_whole_completion() -> None:
    """It says which Model it stands for, costs no tokens, and counts as a hit."""
    answer, tally = await ask(HELLO)
    assert answer is not None
    assert (answer.status, answer.reason) == (200, Reason.SERVED_PIN)
    assert dict(answer.headers) == {
        "content-type": "application/json",
        "x-outrigger-model": "m",
        "x-outrigger-cache": "hit",
    }
    document = orjson.loads(answer.body)
    assert document["choices"][0]["message"]["content"] == "Welcome!"
    assert (document["model"], document["created"], document["usage"]["total_tokens"]) == (
        "m",
        1_700_000_000,
        0,
    )
    assert tally.hits["pin"] == 1


async def test_a_pin_answers_as_a_stream() -> None:
    """The same text, and an end mark."""
    answer, _ = await ask({**HELLO, "stream": True})
    assert answer is not None
    assert answer.body.endswith(b"data: [DONE]\n\n")
    assert dict(answer.headers)["content-type"].startswith("text/event-stream")
    assert b"Welcome!" in answer.body


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([{"role": "user", "content": "hello "}], id="another text"),
        pytest.param([{"role": "user", "content": "Hello"}], id="another case"),
        pytest.param([{"role": "system", "content": "hello"}], id="not a user's"),
        pytest.param([*HELLO["messages"], {"role": "tool", "content": "1"}], id="not the last message"),
        pytest.param([], id="no messages"),
        pytest.param("hello", id="no list"),
    ],
)
async def test_everything_else_passes(messages: object) -> None:
    """Only the exact last user message is answered."""
    assert (await ask({"model": "m", "messages": messages}))[0] is None


async def test_parts_and_several_choices() -> None:
    """A message in text parts is that text; each choice says the same."""
    parts = [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]
    messages = [{"role": "user", "content": "x"}, {"role": "user", "content": parts}]
    answer, _ = await ask({"model": "m", "n": 2, "messages": messages})
    assert answer is not None
    assert [choice["index"] for choice in orjson.loads(answer.body)["choices"]] == [0, 1]


async def test_other_operations_pass() -> None:
    """A Pin is a conversation's."""
    assert (await ask({"model": "m", "prompt": "hello"}, path="/v1/completions"))[0] is None
