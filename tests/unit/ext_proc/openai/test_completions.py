"""Completions of our own making."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from ext_proc.openai.completions import completion_body, last_user_text
from ext_proc.openai.paths import Operation
from ext_proc.openai.responses import parse_completion


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([{"role": "user", "content": "a"}], "a"),
        ([{"role": "system", "content": "s"}, {"role": "user", "content": ""}], ""),
        ([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}], "ab"),
        ([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}], None),
        ([{"role": "user", "content": [{"type": "text", "text": 1}]}], None),
        ([{"role": "user", "content": []}], None),
        ([{"role": "user", "content": None}], None),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], None),
        (["a"], None),
        ([], None),
        (None, None),
    ],
)
def test_the_text_that_a_conversation_ends_with(messages: Any, text: str | None) -> None:
    """A user's, and nothing but text."""
    assert last_user_text({"messages": messages}) == text


def test_a_completion_is_complete() -> None:
    """It could be kept like a provider's; the same text has the same id."""
    body = completion_body("m", "hi", created=1, choices=2)
    completion = parse_completion(Operation.CHAT, body)
    assert completion is not None
    assert completion.complete
    assert completion.finish_reasons == ("stop", "stop")
    assert orjson.loads(body)["id"] == orjson.loads(completion_body("m", "hi", created=2))["id"]
