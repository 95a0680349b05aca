"""An answer as a stream: nothing of it is lost, unknown fields neither."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.openai.deltas import NotJoinable
from ext_proc.openai.paths import Operation
from ext_proc.openai.replays import replay
from ext_proc.openai.sse import EventParser
from tests.unit.ext_proc.openai.test_chunks import CHAT, joined


def read(events: bytes) -> list[bytes]:
    """Return the data of each event."""
    return [event.data for event in EventParser().feed(events)]


TEXT = st.text(max_size=20)
CALLS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.text("abc", min_size=1, max_size=4),
            "type": st.just("function"),
            "function": st.fixed_dictionaries({"name": st.text("fg", min_size=1), "arguments": TEXT}),
        }
    ),
    min_size=1,
    max_size=3,
)
MESSAGES = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": st.none() | TEXT},
    optional={"tool_calls": CALLS, "refusal": st.none() | TEXT, "reasoning_content": TEXT, "x_new": TEXT},
)
ANSWERS = st.fixed_dictionaries(
    {
        "id": st.just("c"),
        "object": st.just("chat.completion"),
        "created": st.integers(0, 2**31),
        "model": st.just("m"),
        "choices": st.lists(
            st.tuples(MESSAGES, st.sampled_from(["stop", "length", "tool_calls"])), min_size=1, max_size=3
        ).map(
            lambda found: [
                {"index": index, "message": message, "logprobs": None, "finish_reason": reason}
                for index, (message, reason) in enumerate(found)
            ]
        ),
        "usage": st.just({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}),
    }
)


@given(ANSWERS, st.integers(1, 5))
def test_a_replay_adds_up_to_the_answer(answer: dict[str, Any], pieces: int) -> None:
    """Whoever joins the replayed stream has the answer again, every field of it."""
    stream = b"".join(replay(CHAT, json.dumps(answer).encode(), include_usage=True, pieces=pieces))
    events = read(stream)
    assert events[-1] == b"[DONE]"
    assert joined(*events) == answer


@given(ANSWERS)
def test_usage_is_replayed_only_when_asked_for(answer: dict[str, Any]) -> None:
    """No chunk has a usage field; with it, only the last one has its numbers."""
    without = [json.loads(data) for data in read(b"".join(_replayed(answer, usage=False)))[:-1]]
    assert not any("usage" in chunk for chunk in without)
    *others, last = [json.loads(data) for data in read(b"".join(_replayed(answer, usage=True)))[:-1]]
    assert all(chunk["usage"] is None for chunk in others)
    assert (last["usage"], last["choices"]) == (answer["usage"], [])


def _replayed(answer: dict[str, Any], *, usage: bool) -> list[bytes]:
    return list(replay(CHAT, json.dumps(answer).encode(), include_usage=usage))


def test_a_completion_is_replayed_in_its_own_form() -> None:
    """`text_completion` with texts."""
    answer = {"object": "text_completion", "choices": [{"index": 0, "text": "abc", "finish_reason": "stop"}]}
    stream = b"".join(
        replay(Operation.COMPLETIONS, json.dumps(answer).encode(), include_usage=False, pieces=2)
    )
    events = read(stream)
    assert [json.loads(event)["choices"][0]["text"] for event in events[:-1]] == ["ab", "c", ""]
    assert joined(*events, operation=Operation.COMPLETIONS)["choices"][0]["text"] == "abc"


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"choices": [1]}'])
def test_what_is_no_answer_is_not_replayed(body: bytes) -> None:
    """An entry of another form is not turned into an empty stream."""
    with pytest.raises(NotJoinable):
        list(replay(CHAT, body, include_usage=False))
