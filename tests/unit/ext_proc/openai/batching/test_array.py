"""A list of conversations in one call."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from ext_proc.openai.batching.array import Array
from ext_proc.openai.batching.inputs import Mismatch, Parts
from ext_proc.openai.paths import Operation
from tests.unit.ext_proc.openai.batching.conversing import dealt, parts_of, whole

ARRAY = Array()


def chat(text: str, **more: Any) -> Parts | None:
    """Take a chat apart."""
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": text}]
    return parts_of(ARRAY, Operation.CHAT, {"model": "m", "messages": messages, **more})


def test_conversations_travel_together() -> None:
    """`messages` is their list; `choices[i]` is the answer to the i-th, and everybody's own is the first."""
    members = [part for part in (chat("a"), chat("b")) if part is not None]
    inputs = [one for part in members for one in part.inputs]
    sent = ARRAY.put_together(members[0], inputs)
    assert [messages[-1]["content"] for messages in sent["messages"]] == ["a", "b"]
    choices = [
        {"index": i, "message": {"role": "assistant", "content": text * 2}, "finish_reason": "stop"}
        for i, text in ((1, "b"), (0, "a"))
    ]
    usage = {"prompt_tokens": 9, "completion_tokens": 4}
    answers = [
        orjson.loads(ARRAY.compose([share]))
        for share in whole(dealt(ARRAY, members, {"id": "x", "choices": choices, "usage": usage}))
    ]
    assert [answer["choices"][0]["message"]["content"] for answer in answers] == ["aa", "bb"]
    assert [answer["choices"][0]["index"] for answer in answers] == [0, 0]
    assert sum(answer["usage"]["prompt_tokens"] for answer in answers) == 9


@pytest.mark.parametrize(
    "more",
    [{"n": 2}, {"messages": []}, {"messages": "a"}, {"messages": [[{"role": "user", "content": "a"}]]}],
)
def test_what_goes_alone(more: dict[str, Any]) -> None:
    """Several answers, no conversation, or a list of them already."""
    assert chat("a", **more) is None


def test_what_does_not_match_is_nobodys() -> None:
    """One answer too few."""
    members = [part for part in (chat("a"), chat("b")) if part is not None]
    with pytest.raises(Mismatch):
        dealt(ARRAY, members, {"choices": [{"index": 0, "message": {"content": "a"}}]})
