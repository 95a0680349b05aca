"""Error bodies in OpenAI's shape."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from ext_proc.openai.errors import MAX_MESSAGE_CHARS, ErrorCode, ErrorType, error_body, plain_text


def test_the_four_fields_are_always_there() -> None:
    """Clients read all of message, type, param and code; unknown ones are null."""
    assert json.loads(error_body("No.")) == {
        "error": {"message": "No.", "type": "invalid_request_error", "param": None, "code": None}
    }
    full = json.loads(error_body("Slow down.", ErrorType.TOKENS, "model", ErrorCode.RATE_LIMIT_EXCEEDED))
    assert full["error"]["type"] == "tokens"
    assert full["error"]["param"] == "model"
    assert full["error"]["code"] == "rate_limit_exceeded"


def test_control_characters_become_spaces() -> None:
    """A caller's text cannot forge a log line or drive a terminal."""
    message = json.loads(error_body('a\r\n{"level": 1}\x1b[2J\x00\u202eb\u2028'))["error"]["message"]
    assert message == 'a {"level": 1} [2J b '


def test_long_messages_are_cut() -> None:
    """A megabyte in a model's name does not come back."""
    assert len(plain_text("x" * 10_000)) == MAX_MESSAGE_CHARS
    assert plain_text("x" * 10_000).endswith("…")


@given(st.text(), st.text(), st.text())
def test_any_text_gives_json(message: str, param: str, code: str) -> None:
    """Lone surrogates and controls included, the body is JSON in UTF-8."""
    body = error_body(message, ErrorType.SERVER, param, code)
    assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}
