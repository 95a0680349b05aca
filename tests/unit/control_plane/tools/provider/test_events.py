"""Streams add up to the whole answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from control_plane.tools.provider.answers import Stamp, usage
from control_plane.tools.provider.calls import TextCall
from control_plane.tools.provider.compose import compose
from control_plane.tools.provider.events import DONE, chat_steps, completion_steps
from control_plane.tools.provider.settings import ProviderSettings
from tests.unit.control_plane.tools.provider.requests import chat, completion

SETTINGS = ProviderSettings(output_tokens=5)
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {}}}}}


def decoded(steps: list[list[bytes]]) -> list[Any]:
    """Return the JSON of all events; every event is one `data:` line, the last is [DONE]."""
    events = [event for step in steps for event in step]
    assert events[-1] == DONE
    assert all(event.startswith(b"data: ") and event.endswith(b"\n\n") for event in events)
    return [json.loads(event[6:]) for event in events[:-1]]


def streamed(call: TextCall) -> list[Any]:
    """Return the JSON of all events of a chat stream."""
    return decoded(list(chat_steps(call, compose(call, SETTINGS), Stamp("1", 7))))


@pytest.mark.parametrize("n", [1, 3])
def test_chat(n: int) -> None:
    """Role first, then deltas that join to the text, then one finish reason a choice."""
    call = chat(stream=True, n=n)
    whole = compose(call, SETTINGS)
    chunks = streamed(call)
    assert {chunk["id"] for chunk in chunks} == {"chatcmpl-1"}
    for index, completion_ in enumerate(whole):
        own = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
        assert own[0]["delta"]["role"] == "assistant"
        assert "".join(choice["delta"].get("content", "") for choice in own) == completion_.text
        assert [choice["finish_reason"] for choice in own] == [None] * (len(own) - 1) + ["stop"]
    assert all("usage" not in chunk for chunk in chunks)


def test_usage_on_request() -> None:
    """With include_usage every chunk has a null usage but the last, which has no choices."""
    call = chat(stream=True, stream_options={"include_usage": True})
    chunks = streamed(call)
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == usage(call, compose(call, SETTINGS))


def test_one_step_a_token() -> None:
    """Each step holds one token of every choice, so that its time is one decode step."""
    call = chat(stream=True, n=2)
    longest = max(len(each.pieces) for each in compose(call, SETTINGS))
    assert len(list(chat_steps(call, compose(call, SETTINGS), Stamp("1", 7)))) == longest + 1


def test_tool_call() -> None:
    """The name comes first, then pieces of the arguments that join to JSON."""
    chunks = streamed(chat(stream=True, tools=[TOOL], tool_choice="required"))
    calls = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", [])]
    assert calls[0]["function"]["name"] == "f"
    assert set(json.loads("".join(call["function"]["arguments"] for call in calls))) == {"a"}
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_empty_answer() -> None:
    """A stream without any token still has its role and its finish."""
    echo = ProviderSettings(answers="echo")
    call = chat("", stream=True)
    chunks = decoded(list(chat_steps(call, compose(call, echo), Stamp("1", 7))))
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, "stop"]


def test_completion() -> None:
    """A completions stream joins to the texts of all prompts."""
    call = completion(["a", "b"], stream=True)
    whole = compose(call, SETTINGS)
    chunks = decoded(list(completion_steps(call, whole, Stamp("1", 7))))
    for index, each in enumerate(whole):
        own = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
        assert "".join(choice["text"] for choice in own) == each.text
        assert own[-1]["finish_reason"] == each.finish_reason
