"""Whether a provider's JSON answer is whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.openai.paths import Operation
from ext_proc.openai.responses import Completion, parse_completion
from ext_proc.openai.usage import Usage

CHAT = Operation.CHAT
STOP = {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}


def read(document: Any, operation: Operation = CHAT) -> Completion:
    """Parse `document` as it would come from a provider."""
    found = parse_completion(operation, json.dumps(document).encode())
    assert found is not None
    return found


def test_a_whole_chat() -> None:
    """Every choice finished: complete, with reasons, usage and the provider's model."""
    document = {
        "model": "m-1",
        "choices": [STOP, {**STOP, "index": 1, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4},
    }
    assert read(document) == Completion(Usage(3, 4), ("stop", "length"), True, "m-1")


def test_null_error_beside_choices_is_no_error() -> None:
    """Some servers write `"error": null` into every answer."""
    assert read({"choices": [STOP], "error": None}).complete


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({}, id="no-choices"),
        pytest.param({"choices": []}, id="empty-choices"),
        pytest.param({"choices": None}, id="choices-null"),
        pytest.param({"choices": {"0": STOP}}, id="choices-object"),
        pytest.param({"choices": [None]}, id="choice-null"),
        pytest.param({"choices": [STOP, {**STOP, "finish_reason": None}]}, id="one-unfinished"),
        pytest.param({"choices": [{**STOP, "finish_reason": ""}]}, id="empty-reason"),
        pytest.param({"choices": [{**STOP, "finish_reason": 1}]}, id="number-reason"),
        pytest.param({"choices": [{**STOP, "finish_reason": "error"}]}, id="broken-off"),
        pytest.param({"choices": [STOP], "error": {"message": "x"}}, id="error-beside"),
        pytest.param({"choices": [STOP], "error": {}}, id="error-empty"),
        pytest.param({"error": {"message": "overloaded"}}, id="error-in-200"),
        pytest.param({"data": [{"embedding": [1.0]}]}, id="embeddings-as-chat"),
    ],
)
def test_what_is_no_whole_chat(document: Any) -> None:
    """Such a 200 passes to its caller, and is never kept."""
    assert not read(document).complete


@pytest.mark.parametrize(
    ("document", "complete"),
    [
        pytest.param({"data": [{"index": 0, "embedding": [0.1]}]}, True, id="floats"),
        pytest.param({"data": [{"index": 0, "embedding": "AACAPw=="}]}, True, id="base64"),
        pytest.param({"data": []}, False, id="empty"),
        pytest.param({"data": None}, False, id="null"),
        pytest.param({"data": [{"index": 0, "embedding": None}]}, False, id="vector-null"),
        pytest.param({"data": [{"index": 0, "embedding": []}]}, False, id="vector-empty"),
        pytest.param({"data": [{"embedding": [1]}, 3]}, False, id="item-junk"),
        pytest.param({"data": [{"embedding": [1]}], "error": {"message": "x"}}, False, id="error-beside"),
        pytest.param({"choices": [STOP]}, False, id="chat-as-embeddings"),
    ],
)
def test_whole_embeddings(document: Any, complete: bool) -> None:
    """Embeddings have no finish reason; they are whole with their vectors."""
    assert read(document, Operation.EMBEDDINGS).complete is complete


def test_completions_are_read_like_chats() -> None:
    """The old completions end their choices in the same way."""
    found = read({"choices": [{"index": 0, "text": "Hi", "finish_reason": "stop"}]}, Operation.COMPLETIONS)
    assert found.complete


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"oops", b'{"a":', b"\xff\xfe", b"<html></html>", b"3"]
)
def test_no_object_is_none(body: bytes) -> None:
    """What is no JSON object is no completion."""
    assert parse_completion(CHAT, body) is None


@given(st.binary(), st.sampled_from([Operation.CHAT, Operation.COMPLETIONS, Operation.EMBEDDINGS]))
def test_bytes_never_raise(body: bytes, operation: Operation) -> None:
    """A provider may answer any bytes."""
    parse_completion(operation, body)
    parse_completion(operation, b'{"choices":' + body + b"}")
