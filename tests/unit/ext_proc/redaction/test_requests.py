"""Which texts of a request are masked."""

from __future__ import annotations

import copy
import json
from typing import Any

import orjson
import pytest

from ext_proc.openai.paths import Operation
from ext_proc.openai.requests import Request
from ext_proc.redaction.requests import mask_request

PHONE = "13800138000"


def request(operation: Operation = Operation.CHAT, **document: Any) -> Request:
    """Return a request of a model `m`."""
    return Request(operation, {"model": "m", **document}, "m", stream=False)


def call(arguments: str) -> dict[str, Any]:
    """Return an assistant's message that calls a function."""
    function = {"name": f"f_{PHONE}", "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": f"c-{PHONE}", "function": function}]}


@pytest.mark.parametrize(
    "message",
    [
        pytest.param({"role": "system", "content": f"call {PHONE}"}, id="system"),
        pytest.param({"role": "user", "content": f"call {PHONE}"}, id="user"),
        pytest.param({"role": "user", "name": PHONE, "content": "hi"}, id="participant"),
        pytest.param({"role": "assistant", "content": f"call {PHONE}", "refusal": PHONE}, id="assistant"),
        pytest.param({"role": "assistant", "reasoning_content": PHONE}, id="reasoning"),
        pytest.param({"role": "user", "content": [{"type": "text", "text": f"call {PHONE}"}]}, id="part"),
        pytest.param({"role": "tool", "tool_call_id": "c", "content": f'{{"p": {PHONE}}}'}, id="result"),
        pytest.param(
            {"role": "user", "content": [{"type": "new", "deep": [{"er": PHONE}]}]}, id="unknown part"
        ),
    ],
)
def test_texts_of_messages_are_masked(message: dict[str, Any]) -> None:
    """Wherever they stand in a message."""
    masked = request(messages=[message])
    assert mask_request(masked) is not None
    said = json.dumps(masked.document)
    assert PHONE not in said
    assert "[PHONE_1]" in said


def test_a_call_keeps_its_name_and_its_id() -> None:
    """They are no text; its arguments are, and stay JSON."""
    masked = request(messages=[call(f'{{"phone": {PHONE}, "b": 1}}')])
    assert mask_request(masked) is not None
    tool_call = masked.document["messages"][0]["tool_calls"][0]
    assert (tool_call["id"], tool_call["function"]["name"]) == (f"c-{PHONE}", f"f_{PHONE}")
    assert json.loads(tool_call["function"]["arguments"]) == {"phone": "[PHONE_1]", "b": 1}


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": f"https://h/{PHONE}"}},
        {"type": "input_audio", "input_audio": {"data": PHONE, "format": "wav"}},
        {"type": "file", "file": {"file_id": PHONE, "file_data": PHONE}},
        {"type": "new", "blob": f"data:image/png;base64,{PHONE}"},
    ],
)
def test_addresses_and_contents_of_files_are_left(part: dict[str, Any]) -> None:
    """A changed one could not be read any more."""
    before = request(messages=[{"role": "user", "content": [part]}])
    assert mask_request(copy.deepcopy(before)) is None


def test_a_text_that_begins_like_a_file_is_a_text() -> None:
    """Nobody gets past by how a text begins."""
    for begin in ("data:text/plain, call ", "data:text/plain,", "data:a/b;base64, "):
        masked = request(messages=[{"role": "user", "content": f"{begin}{PHONE}"}])
        assert mask_request(masked) is not None


@pytest.mark.parametrize(
    ("operation", "document", "expected"),
    [
        (
            Operation.COMPLETIONS,
            {"prompt": PHONE, "suffix": PHONE},
            {"prompt": "[PHONE_1]", "suffix": "[PHONE_1]"},
        ),
        (Operation.COMPLETIONS, {"prompt": ["a", PHONE]}, {"prompt": ["a", "[PHONE_1]"]}),
        (Operation.EMBEDDINGS, {"input": [PHONE, "a@b.cn"]}, {"input": ["[PHONE_1]", "[EMAIL_1]"]}),
        (Operation.CHAT, {"user": PHONE, "stop": [PHONE]}, {"user": "[PHONE_1]", "stop": ["[PHONE_1]"]}),
        (
            Operation.CHAT,
            {"metadata": {"id": PHONE, "name": PHONE, "input": "x", "a": int(PHONE)}},
            {"metadata": {"id": "[PHONE_1]", "name": "[PHONE_1]", "input": "x", "a": "[PHONE_1]"}},
        ),
        (
            Operation.CHAT,
            {"tools": [{"function": {"name": "f", "description": PHONE, "parameters": {"enum": [PHONE]}}}]},
            {
                "tools": [
                    {"function": {"name": "f", "description": "[PHONE_1]", "parameters": {"enum": [PHONE]}}}
                ]
            },
        ),
    ],
)
def test_other_fields(operation: Operation, document: dict[str, Any], expected: dict[str, Any]) -> None:
    """Prompts, inputs, suffixes, stop sequences, descriptions, and who the user is."""
    masked = request(operation, **document)
    assert mask_request(masked) is not None
    assert masked.document == {"model": "m", **expected}


@pytest.mark.parametrize(
    "document",
    [
        {"input": [[13800138000, 5], [7]]},
        {"input": [13800138000]},
        {"input": None},
        {},
        {"input": "plain", "user": "u-1"},
    ],
)
def test_nothing_to_mask(document: dict[str, Any]) -> None:
    """Token numbers are no text; whatever has a wrong form is the provider's to refuse."""
    before = request(Operation.EMBEDDINGS, **document)
    assert mask_request(before) is None
    assert before.document == {"model": "m", **document}


@pytest.mark.parametrize("role", [["user"], {}, 7, None])
def test_whatever_the_role_is_the_text_is_masked(role: object) -> None:
    """A provider refuses such a message, and has not seen the number."""
    masked = request(messages=[{"role": role, "content": PHONE}, {"role": role, "content": int(PHONE)}])
    assert mask_request(masked) is not None
    assert [one["content"] for one in masked.document["messages"]] == ["[PHONE_1]", "[PHONE_1]"]


def test_what_others_hold_of_the_document_does_not_change() -> None:
    """A session keeps the caller's own messages while masked ones go up."""
    messages = [
        {"role": "user", "content": [{"type": "text", "text": PHONE}]},
        {"role": "user", "content": "b"},
    ]
    kept = copy.deepcopy(messages)
    masked = request(messages=messages)
    assert mask_request(masked) is not None
    assert messages == kept
    assert masked.document["messages"][1] is messages[1]


def test_only_what_is_named_is_masked() -> None:
    """A card is still read as a card, and not as the phone number within."""
    text = "a@b.cn 13800138000 4111111111111111"
    masked = request(messages=[{"role": "user", "content": text}])
    masks = mask_request(masked, ("phone", "unheard-of"))
    assert masks is not None
    assert masked.document["messages"][0]["content"] == "a@b.cn [PHONE_1] 4111111111111111"
    assert mask_request(request(messages=[{"content": text}]), ()) is None


def test_equal_masked_questions_are_equal_bodies() -> None:
    """Numbered in order of appearance, whoever asks; the same value again is the same placeholder."""
    bodies = set()
    for first, second in (("13800138000", "a@b.cn"), ("13900139000", "z@y.org")):
        asked = request(messages=[{"role": "user", "content": f"{first} {second} {first}"}], user=first)
        assert mask_request(asked) is not None
        bodies.add(orjson.dumps(asked.document))
    assert len(bodies) == 1


def test_placeholders_of_the_caller_are_numbered_past() -> None:
    """They mean nothing to us, here or in the answer."""
    masked = request(messages=[{"content": "[PHONE_1] is not 13800138000"}])
    masks = mask_request(masked)
    assert masks is not None
    text = masked.document["messages"][0]["content"]
    assert text == "[PHONE_1] is not [PHONE_2]"
    assert masks.restore(text) == "[PHONE_1] is not 13800138000"


@pytest.mark.parametrize(("form", "quoted"), [("json_object", True), ("json_schema", True), ("text", False)])
def test_whether_the_answer_will_be_json(form: str, quoted: bool) -> None:
    """As the request asks."""
    masks = mask_request(request(messages=[{"content": PHONE}], response_format={"type": form}))
    assert masks is not None
    assert masks.answers_json is quoted
