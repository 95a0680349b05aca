"""JSON answers with their request's values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ext_proc.redaction.answers import restore_body
from ext_proc.redaction.items import items_in
from ext_proc.redaction.masks import PLACEHOLDER, Masks
from ext_proc.redaction.requests import mask_text

PEM = "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----"


def masks_of(*items: tuple[Any, str], answers_json: bool = False) -> Masks:
    """Return masks of these values."""
    masks = Masks(answers_json=answers_json)
    for entity, value in items:
        masks.mask(entity, value)
    return masks


def chat(**message: Any) -> bytes:
    """Return a chat completion."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return json.dumps({"id": "x-[PHONE_1]", "object": "chat.completion", "choices": [choice]}).encode()


def message_of(body: bytes) -> dict[str, Any]:
    """Return the message of a chat completion."""
    message: dict[str, Any] = json.loads(body)["choices"][0]["message"]
    return message


@pytest.mark.parametrize("field", ["content", "refusal", "reasoning_content", "unheard_of"])
def test_texts_are_restored(field: str) -> None:
    """In every field that may hold one; an id is none."""
    body = restore_body(
        masks_of(("phone", "138"), ("email", "a@b.cn")), chat(**{field: "[PHONE_1] [EMAIL_1] [CARD_1]"})
    )
    assert message_of(body)[field] == "138 a@b.cn [CARD_1]"
    assert json.loads(body)["id"] == "x-[PHONE_1]"


def test_arguments_stay_json() -> None:
    """A value with line breaks is escaped within them, and nowhere else."""
    masks = masks_of(("key", PEM))
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"k": "[KEY_1]"}'}}
    message = message_of(restore_body(masks, chat(content="k [KEY_1]", tool_calls=[call])))
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"k": PEM}
    assert message["content"] == f"k {PEM}"


def test_an_answer_that_was_asked_for_as_json_stays_json() -> None:
    """Its text is JSON as a whole."""
    masks = masks_of(("key", PEM), answers_json=True)
    message = message_of(restore_body(masks, chat(content='{"k": "[KEY_1]"}')))
    assert json.loads(message["content"]) == {"k": PEM}


def test_parts_and_pieces() -> None:
    """Content in parts is text; what `logprobs` lists are pieces of the provider's own."""
    masks = masks_of(("phone", "138"))
    body = json.dumps(
        {
            "choices": [{"text": ["[PHONE_1]"], "logprobs": {"tokens": ["[PHONE_1]"]}}],
            "error": {"message": "[PHONE_1]"},
        }
    ).encode()
    restored = json.loads(restore_body(masks, body))
    assert restored["choices"][0] == {"text": ["138"], "logprobs": {"tokens": ["[PHONE_1]"]}}
    assert restored["error"] == {"message": "138"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no JSON [PHONE_1]",
        b'["[PHONE_1]"]',
        b'{"a": "b"}',
        b'{"a": "[PHONE_7]"}',
        b'{"a":"[PHONE_1]"',
        b'{"a":"[PHONE_1]"}{}',
        b'{"a":"[PHONE_1]","b":' + b"[" * 2_000 + b"]" * 2_000 + b"}",
        b'{"a":"[PHONE_7] \\ud83d"}',
    ],
)
def test_what_cannot_be_restored_passes_as_it_is(body: bytes) -> None:
    """Without placeholders of ours not a byte changes."""
    assert restore_body(masks_of(("phone", "138")), body) is body


@pytest.mark.parametrize(
    ("body", "restored"),
    [
        pytest.param(
            rb'{"a":"[PHONE_1] \ud83d \u7535"}', '{"a":"138 \\ud83d 电"}'.encode(), id="half a surrogate pair"
        ),
        pytest.param(rb'{"\udc00":["[PHONE_1]"]}', rb'{"\udc00":["138"]}', id="in a key"),
        pytest.param(
            b'{"a":"[PHONE_1]","b":[NaN,-Infinity,1.0]}', b'{"a":"138","b":[NaN,-Infinity,1.0]}', id="NaN"
        ),
        pytest.param(b'{"a":1,"a":"[PHONE_1]"}', b'{"a":"138"}', id="a key twice"),
        pytest.param(
            b'{"a":"[PHONE_1] \\ud83d","b":' + b"1" * 30 + b"}",
            b'{"a":"138 \\ud83d","b":' + b"1" * 30 + b"}",
            id="with a number of 30 digits",
        ),
        pytest.param(
            b'{"a":"[PHONE_1]","b":' + b"[" * 400 + b"]" * 400 + b"}",
            b'{"a":"138","b":' + b"[" * 400 + b"]" * 400 + b"}",
            id="deep",
        ),
        pytest.param(
            rb'{"logprobs":{"token":"[PHONE_1] \ud83d"},"arguments":"{\"a\": \"[KEY_1] \ud83d\"}"}',
            rb'{"logprobs":{"token":"[PHONE_1] \ud83d"},"arguments":"{\"a\": \"x\\ny \ud83d\"}"}',
            id="fields as ever",
        ),
    ],
)
def test_what_only_a_client_reads_is_restored(body: bytes, restored: bytes) -> None:
    """A caller never sees a placeholder because JSON has stricter readers than theirs."""
    assert restore_body(masks_of(("phone", "138"), ("key", "x\ny")), body) == restored


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "13800138000",
                "a@b.cn",
                "4111111111111111",
                "sk-abc123def",
                "[PHONE_1]",
                "[EMAIL_2",
                "[",
                "]",
                "😀",
                " ",
            ]
        )
        | st.text(max_size=5),
        max_size=8,
    ).map(lambda parts: "said: " + "".join(parts))
)
def test_restoring_undoes_masking(text: str) -> None:
    """Whatever the text, placeholders of the caller's own too."""
    masks = Masks(PLACEHOLDER.findall(text))
    assert masks.restore(mask_text(text, items_in(text), masks)) == text
