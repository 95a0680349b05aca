"""Chunks to one answer and back: nothing of a stream is lost, unknown fields neither."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.openai.chunks import ChunkJoiner, NotJoinable, replay
from ext_proc.openai.paths import Operation
from ext_proc.openai.sse import EventParser

CHAT = Operation.CHAT


def joined(*chunks: dict[str, Any] | bytes, operation: Operation = CHAT) -> dict[str, Any]:
    """Return what `chunks` add up to."""
    return dict(json.loads(joiner(*chunks, operation=operation).answer()))


def joiner(*chunks: dict[str, Any] | bytes, operation: Operation = CHAT) -> ChunkJoiner:
    """Return a joiner that was given `chunks`."""
    found = ChunkJoiner(operation, 1_000_000)
    for chunk in chunks:
        found.add(chunk if isinstance(chunk, bytes) else json.dumps(chunk).encode())
    return found


def delta(index: int = 0, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return a chunk of one choice."""
    choice = {"index": index, "delta": fields, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def read(events: bytes) -> list[bytes]:
    """Return the data of each event."""
    return [event.data for event in EventParser().feed(events)]


def test_text_adds_up_and_the_rest_is_said_last() -> None:
    """Role and reason stand, an id that is said again is not doubled."""
    answer = joined(
        delta(role="assistant", content=""), delta(content="Hel", role="assistant"), delta(content="lo"),
        {**delta(finish="stop"), "usage": {"prompt_tokens": 3}, "system_fingerprint": "f"},
        b"[DONE]",
    )  # fmt: skip
    assert answer == {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "usage": {"prompt_tokens": 3},
        "system_fingerprint": "f",
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello"}}
        ],
    }


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


def test_choices_are_told_apart_and_put_in_order() -> None:
    """`n` above 1: each choice's own text and reason; the stream is finished with the last one."""
    half = joiner(delta(1, content="b"), delta(0, content="a", finish="stop"))
    assert not half.finished
    half.add(json.dumps(delta(1, finish="length")).encode())
    assert half.finished
    choices = json.loads(half.answer())["choices"]
    assert [(c["index"], c["message"]["content"], c["finish_reason"]) for c in choices] == [
        (0, "a", "stop"),
        (1, "b", "length"),
    ]


def test_unknown_fields_and_odd_chunks_are_kept() -> None:
    """Reasoning, log probabilities, refusals, filter results first, usage last, choices absent or null."""
    tokens = [{"token": "H", "logprob": -0.1}, {"token": "i", "logprob": -0.2}]
    first, second = delta(content="H", reasoning_content="be"), delta(content="i", reasoning_content="cause")
    first["choices"][0]["logprobs"] = {"content": tokens[:1], "refusal": None}
    second["choices"][0]["logprobs"] = {"content": tokens[1:], "refusal": None}
    answer = joined(
        {"choices": [], "prompt_filter_results": [{"prompt_index": 0}], "model": ""},
        {"x_new": {"a": 1}},
        {"choices": None},
        {"choices": [{"index": 0, "delta": None}]},
        first,
        second,
        delta(finish="stop"),
    )
    choice = answer["choices"][0]
    assert choice["message"]["reasoning_content"] == "because"
    assert choice["logprobs"] == {"content": tokens, "refusal": None}
    assert answer["prompt_filter_results"] == [{"prompt_index": 0}]
    assert (answer["x_new"], answer["model"]) == ({"a": 1}, "m")


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([delta(content="a")], id="no reason"),
        pytest.param([delta(finish="error")], id="failed choice"),
        pytest.param([delta(finish="stop"), {"error": {"message": "x"}}], id="error frame"),
        pytest.param([{"choices": []}], id="no choices"),
    ],
)
def test_what_is_not_finished(chunks: list[dict[str, Any]]) -> None:
    """No reason, a failed one, an error in the stream, nothing at all: never an answer to keep."""
    assert not joiner(*chunks, b"[DONE]").finished


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b"5", b'{"choices": 1}', b'{"choices": [1]}', b'{"choices": [{"index": "0"}]}']
)
def test_what_is_no_chunk_is_said_so(data: bytes) -> None:
    """It is not joined, and not guessed at."""
    assert not joiner(data).joinable


def test_a_stream_beyond_the_bound_is_not_held() -> None:
    """Memory is bounded."""
    small = ChunkJoiner(CHAT, 100)
    for _ in range(3):
        small.add(json.dumps(delta(content="x" * 10)).encode())
    assert not small.joinable


def test_completions_join_by_their_text() -> None:
    """The older form of the API."""
    chunk = {"id": "c", "object": "text_completion", "choices": [{"index": 0, "text": "a", "logprobs": None}]}
    last = {**chunk, "choices": [{"index": 0, "text": "b", "finish_reason": "length"}]}
    answer = joined(chunk, last, operation=Operation.COMPLETIONS)
    assert answer["object"] == "text_completion"
    assert answer["choices"] == [{"index": 0, "text": "ab", "logprobs": None, "finish_reason": "length"}]


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


def test_texts_are_measured_wherever_they_stand() -> None:
    """Content and the arguments of tools, in bytes; ids and names are no texts."""
    call = {"index": 0, "id": "call-1", "function": {"name": "find", "arguments": "{}"}}
    found = joiner(delta(content="né"), delta(tool_calls=[call]), {"choices": []})
    assert (found.text_bytes, found.spoken) == (3 + 2, 2)


@pytest.mark.parametrize("depth", [200, 260, *range(300, 520, 20), 900, 1010, 100_000])
def test_however_deeply_a_delta_is_nested(depth: int) -> None:
    """It is joined if it can be written again; it never ends in an error."""
    nested = b'{"a":' * depth + b'"x"' + b"}" * depth
    found = joiner(b'{"choices": [{"index": 0, "delta": %s, "finish_reason": "stop"}]}' % nested)
    assert found.finished is (depth == 200)
    if found.finished:
        assert found.answer().count(b"{") >= depth
    found.add(b'{"choices": [{"index": 0, "delta": %s}]}' % nested)
    assert found.text_bytes >= 0
