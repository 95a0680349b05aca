"""Chunks to one answer and back: nothing of a stream is lost, unknown fields neither."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ext_proc.openai.chunks import ChunkJoiner
from ext_proc.openai.paths import Operation

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
