"""Deltas that add up, in whichever of the providers' dialects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.ext_proc.openai.test_chunks import delta, joined, joiner


def test_tool_calls_are_merged_by_their_index() -> None:
    """Arguments add up, also when two calls take turns; the answer's calls carry no index."""

    def call(index: int, **function: str) -> dict[str, Any]:
        return {"index": index, "function": function}

    answer = joined(
        delta(role="assistant", content=None),
        delta(tool_calls=[{**call(0, name="f", arguments=""), "id": "a", "type": "function"}]),
        delta(tool_calls=[{**call(1, name="g", arguments='{"y"'), "id": "b", "type": "function"}]),
        delta(tool_calls=[call(0, arguments='{"x":')]),
        delta(tool_calls=[call(1, arguments=":2}"), call(0, arguments="1}")]),
        delta(finish="tool_calls"),
    )
    assert answer["choices"][0]["message"]["tool_calls"] == [
        {"function": {"name": "f", "arguments": '{"x":1}'}, "id": "a", "type": "function"},
        {"function": {"name": "g", "arguments": '{"y":2}'}, "id": "b", "type": "function"},
    ]
    assert answer["choices"][0]["message"]["content"] is None


def fragment(arguments: str, index: int | None = 0, **more: Any) -> dict[str, Any]:
    """Return a part of a tool call; `name` is the function's."""
    function = {"arguments": arguments, **({"name": more.pop("name")} if "name" in more else {})}
    return {**({} if index is None else {"index": index}), "function": function, **more}


TWO: list[list[dict[str, Any]]] = [
    # Later fragments say the empty text.
    [
        fragment('{"a":', id="c1", name="f", type="function"),
        fragment("1}", id="", name="", type=""),
        fragment('{"b":2}', 1, id="c2", name="g", type="function"),
    ],
    # One index for all, ids that differ.
    [fragment('{"a":1}', id="c1", name="f"), fragment('{"b":2}', id="c2", name="g")],
    [fragment('{"a":', id="c1", name="f"), fragment('{"b":2}', id="c2", name="g"), fragment("1}", id="c1")],
    # One index for all and no ids.
    [fragment('{"a":1}', name="f"), fragment('{"b":2}', name="g")],
    # No index: by the id, and without one the last call goes on.
    [
        fragment('{"a":', None, id="c1", name="f"),
        fragment("1}", None),
        fragment('{"b":2}', None, id="c2", name="g"),
    ],
    [
        fragment('{"a":', None, id="c1", name="f"),
        fragment("1}", None, id="c1"),
        fragment('{"b":2}', None, name="g"),
    ],
    [
        {**fragment('{"a":', None, id="c1", name="f"), "index": None},
        {**fragment("1}", None, id="c1"), "index": None},
        {**fragment('{"b":2}', None, id="c2", name="g"), "index": None},
    ],
    # An id of each fragment's own.
    [fragment('{"a":', id="x", name="f"), fragment("1}", id="c1"), fragment('{"b":2}', 1, id="c2", name="g")],
    # The name is said again with each fragment.
    [fragment('{"a":', name="f"), fragment("1}", name="f"), fragment('{"b":2}', 1, name="g")],
]


@pytest.mark.parametrize("fragments", TWO)
@pytest.mark.parametrize("together", [False, True])
def test_tool_calls_are_told_apart_however_they_are_written(
    fragments: list[dict[str, Any]], together: bool
) -> None:
    """Two calls with their names, and arguments that parse; in one chunk or in one each."""
    chunks = [delta(tool_calls=fragments)] if together else [delta(tool_calls=[one]) for one in fragments]
    calls = joined(*chunks, delta(finish="tool_calls"))["choices"][0]["message"]["tool_calls"]
    said = [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]
    assert said == [("f", {"a": 1}), ("g", {"b": 2})]
    assert all(call.get("id") in (None, f"c{number}") for number, call in enumerate(calls, 1))


def test_two_calls_of_one_function_without_any_name_of_their_own() -> None:
    """One whose arguments are whole is over when the function is named again."""
    calls = [fragment('{"a":1}', name="f"), fragment('{"a":2}', name="f")]
    answer = joined(delta(tool_calls=calls), delta(finish="tool_calls"))
    found = answer["choices"][0]["message"]["tool_calls"]
    assert [call["function"]["arguments"] for call in found] == ['{"a":1}', '{"a":2}']


def test_texts_that_nobody_knows_add_up_whatever_they_say() -> None:
    """Also when one piece is like the one before."""
    chunks = [
        delta(reasoning_text="ha"),
        delta(reasoning_text="ha"),
        delta(reasoning_text="!"),
        delta(finish="stop"),
    ]
    assert joined(*chunks)["choices"][0]["message"]["reasoning_text"] == "haha!"


def test_what_is_said_again_is_not_added_up() -> None:
    """Beside the delta nothing is; in it, what says something of the texts."""
    results = {"hate": {"filtered": False, "severity": "safe"}}
    details = {"type": "reasoning.text", "format": "anthropic-v1", "index": 0}
    chunks = [
        delta(role="assistant", channel="final", reasoning_details=[{**details, "text": "be"}], content="a"),
        delta(role="", channel="final", reasoning_details=[{**details, "text": "cause"}], content="a"),
        delta(finish="stop"),
    ]
    for chunk in chunks:
        chunk["choices"][0] |= {"content_filter_results": results, "stop_reason": "END"}
    answer = joined(*chunks, {**delta(), "id": "", "model": "", "created": 0, "object": ""})
    assert (answer["id"], answer["model"], answer["created"]) == ("c", "m", 1)
    (choice,) = answer["choices"]
    assert (choice["content_filter_results"], choice["stop_reason"]) == (results, "END")
    assert choice["message"] == {
        "role": "assistant",
        "content": "aa",
        "channel": "final",
        "reasoning_details": [{**details, "text": "because"}],
    }


def test_thoughts_in_parts_before_plain_text() -> None:
    """The content is then a list of parts, of which none is lost."""
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    answer = joined(
        delta(content=""),
        delta(content=[thought]),
        delta(content="Hel"),
        delta(content="lo"),
        delta(finish="stop"),
    )
    assert answer["choices"][0]["message"]["content"] == [thought, {"type": "text", "text": "Hello"}]


@pytest.mark.parametrize(
    "choices",
    [
        [{"index": 0, "message": {"content": "whole"}, "finish_reason": "stop"}],
        [{"index": 0, "delta": "text"}],
        [{"index": 0, "delta": {"x_new": "text"}}, {"index": 0, "delta": {"x_new": {"a": 1}}}],
    ],
    ids=["a message", "a text", "another kind"],
)
def test_what_has_another_form_is_not_guessed_at(choices: list[dict[str, Any]]) -> None:
    """It is not kept."""
    assert not joiner(delta(content="a"), {"choices": choices}, delta(finish="stop")).finished


def test_a_character_that_is_cut_into_its_halves_is_whole_again() -> None:
    """Each half is an escape in an event of its own; half of one alone is nothing to keep."""
    first, second = (
        b'{"choices": [{"index": 0, "delta": {"content": "\\u%s"}}]}' % half for half in (b"d83d", b"de00")
    )
    answer = joined(first, second, delta(finish="stop"))
    assert answer["choices"][0]["message"]["content"] == "\U0001f600"
    assert not joiner(first, delta(finish="stop")).finished
