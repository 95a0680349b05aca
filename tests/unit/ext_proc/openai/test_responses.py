"""Whether a provider's JSON answer is whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ext_proc.openai.paths import Operation
from ext_proc.openai.requests import Request
from ext_proc.openai.responses import ENDS, Completion, parse_completion
from ext_proc.openai.usage import Usage

CHAT = Operation.CHAT
STOP = {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}


def read(document: Any, operation: Operation = CHAT) -> Completion:
    """Parse `document` as it would come from a provider."""
    found = parse_completion(operation, json.dumps(document).encode())
    assert found is not None
    return found


def asked(document: dict[str, Any], operation: Operation = CHAT) -> Request:
    """Return the request with `document`."""
    return Request(operation, document, "m", stream=False)


def answer_of(operation: Operation, entries: int) -> Completion:
    """Return a whole answer of so many `entries`."""
    if operation is Operation.EMBEDDINGS:
        return read({"data": [{"index": index, "embedding": [0.1]} for index in range(entries)]}, operation)
    return read({"choices": [{**STOP, "index": index, "text": "Hi"} for index in range(entries)]}, operation)


def test_a_whole_chat() -> None:
    """Every choice finished: complete, with reasons, usage and the provider's model."""
    document = {
        "model": "m-1",
        "choices": [STOP, {**STOP, "index": 1, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4},
    }
    assert read(document) == Completion(Usage(3, 4), ("stop", "length"), True, "m-1", 2)


@pytest.mark.parametrize(
    ("choice", "refused"),
    [
        ({**STOP, "finish_reason": "content_filter"}, True),
        ({**STOP, "message": {"role": "assistant", "content": None, "refusal": "No."}}, True),
        ({**STOP, "message": {"role": "assistant", "content": "Hi", "refusal": None}}, False),
        (STOP, False),
    ],
)
def test_a_refusal_is_seen(choice: dict[str, Any], refused: bool) -> None:
    """One choice of several is enough."""
    assert read({"choices": [STOP, choice]}).refused is refused


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
        pytest.param({"choices": [{**STOP, "error": {"code": 502}}]}, id="error-in-choice"),
        pytest.param({"choices": [{**STOP, "message": None}]}, id="message-null"),
        pytest.param({"choices": [{**STOP, "message": "Hi"}]}, id="message-text"),
        pytest.param({"choices": [{"index": 0, "finish_reason": "stop"}]}, id="no-message"),
        pytest.param({"choices": [{"text": "Hi", "finish_reason": "stop"}]}, id="text-as-chat"),
        pytest.param({"choices": [STOP, STOP]}, id="index-twice"),
        pytest.param({"choices": [{**STOP, "index": "0"}]}, id="index-text"),
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
        pytest.param({"data": [{"embedding": [0.1]}, {"embedding": [1, -2.5]}]}, True, id="no-index"),
        pytest.param(
            {"data": [{"index": 1, "embedding": [1]}, {"index": 0, "embedding": [2]}]}, True, id="any-order"
        ),
        pytest.param(
            {"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [2]}]},
            False,
            id="index-twice",
        ),
        pytest.param({"data": [{"index": 1, "embedding": [0.1]}]}, False, id="index-too-large"),
        pytest.param({"data": [{"index": -1, "embedding": [0.1]}]}, False, id="index-negative"),
        pytest.param({"data": [{"index": "0", "embedding": [0.1]}]}, False, id="index-text"),
        pytest.param({"data": [{"index": 0, "embedding": [None]}]}, False, id="number-null"),
        pytest.param({"data": [{"index": 0, "embedding": [0.1, None]}]}, False, id="one-number-null"),
        pytest.param({"data": [{"index": 0, "embedding": ["0.1"]}]}, False, id="number-text"),
        pytest.param({"data": [{"index": 0, "embedding": [True]}]}, False, id="number-true"),
        pytest.param({"data": [{"index": 0, "embedding": [[0.1]]}]}, False, id="matrix"),
        pytest.param({"data": [{"index": 0, "embedding": ""}]}, False, id="base64-empty"),
        pytest.param({"data": [None]}, False, id="item-null"),
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
    "choice",
    [
        {"finish_reason": "stop"},
        {"finish_reason": "stop", "text": None},
        {"finish_reason": "stop", "message": {}},
    ],
    ids=["no-text", "text-null", "message"],
)
def test_completions_need_their_text(choice: dict[str, Any]) -> None:
    """What has none answers nothing."""
    assert not read({"choices": [choice]}, Operation.COMPLETIONS).complete


@pytest.mark.parametrize("reason", sorted(ENDS))
def test_an_answer_that_came_to_its_end_may_be_kept(reason: str) -> None:
    """By OpenAI's words and by those of other servers."""
    assert read({"choices": [{**STOP, "finish_reason": reason}]}).answers_all_of(asked({}))


@pytest.mark.parametrize(
    "reason",
    (
        *("abort", "cancelled", "content_filter", "insufficient_system_resource", "network_error", "timeout"),
        *("ERROR", "recitation", "SAFETY", "sensitive", "Stop", "stop ", "STOP", "x_future"),
    ),
)
def test_any_other_end_is_whole_and_not_kept(reason: str) -> None:
    """Those who wait for it get it as it is; nobody later. Words are compared exactly."""
    found = read({"choices": [STOP, {**STOP, "index": 1, "finish_reason": reason}]})
    assert found.complete
    assert not found.answers_all_of(asked({"n": 2}))


EMBEDDINGS, COMPLETIONS = Operation.EMBEDDINGS, Operation.COMPLETIONS


@pytest.mark.parametrize(
    ("operation", "document", "answers"),
    [
        (CHAT, {"messages": [{"role": "user"}, {"role": "user"}]}, {1}),
        (CHAT, {"messages": [{"role": "user"}], "n": 2}, {1, 2}),
        (CHAT, {"messages": [{"role": "user"}], "n": None}, {1}),
        (CHAT, {"messages": [{"role": "user"}], "n": 2.0}, {1, 2}),
        (CHAT, {"messages": [[{"role": "user"}], [{"role": "user"}], []]}, {3}),
        (CHAT, {"n": "2"}, set()),
        (CHAT, {"n": True}, set()),
        (CHAT, {"n": 0}, set()),
        (CHAT, {"n": 1.5}, set()),
        (CHAT, {"n": float("inf")}, set()),
        (COMPLETIONS, {}, {1}),
        (COMPLETIONS, {"prompt": "a", "n": 3}, {1, 3}),
        (COMPLETIONS, {"prompt": ["a", "b"]}, {2}),
        (COMPLETIONS, {"prompt": ["a", "b"], "n": 2}, {2, 4}),
        (COMPLETIONS, {"prompt": [5, 6, 7]}, {1}),
        (COMPLETIONS, {"prompt": [[5, 6], [7]]}, {2}),
        (EMBEDDINGS, {"input": "a", "n": 2}, {1}),
        (EMBEDDINGS, {"input": ["a", "b"]}, {2}),
        (EMBEDDINGS, {"input": [5, 6]}, {1}),
        (EMBEDDINGS, {"input": [[5, 6], [7]]}, {2}),
        (EMBEDDINGS, {"input": []}, set()),
    ],
)
def test_as_many_answers_as_were_asked(
    operation: Operation, document: dict[str, Any], answers: set[int]
) -> None:
    """Any other number is not kept; a server that does not know `n` gives one each."""
    for number in range(1, 6):
        found = answer_of(operation, number)
        assert found.complete
        assert found.answers_all_of(asked(document, operation)) == (number in answers)


def test_what_is_not_whole_is_not_kept() -> None:
    """However it ended."""
    assert not read({"choices": [{**STOP, "message": None}]}).answers_all_of(asked({}))


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


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 2)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "stop"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["index", "message", "text", "finish_reason", "embedding", "error"]), inner
        )
    ),
    max_leaves=8,
)


@settings(max_examples=50)
@given(JUNK, JUNK, st.sampled_from([CHAT, Operation.COMPLETIONS, Operation.EMBEDDINGS]))
def test_no_form_raises(entries: object, question: object, operation: Operation) -> None:
    """Neither of an answer nor of a question, and nothing is kept that is not whole."""
    body = json.dumps({"choices": entries, "data": entries}).encode()
    found = parse_completion(operation, body)
    fields = dict.fromkeys(("messages", "prompt", "input", "n"), question)
    assert found is None or found.complete or not found.answers_all_of(asked(fields, operation))
    assert not Completion(complete=True, answers=-1).answers_all_of(asked(fields, operation))
