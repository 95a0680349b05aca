"""Answers of our own in OpenAI's shape."""

from __future__ import annotations

import orjson
import pytest

from ext_proc.exchange import Answer, Reason
from ext_proc.refusals import no_backend, refuse, unknown_model


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (refuse(400, Reason.BAD_REQUEST, "bad", param="p", code="c"), 400),
        (unknown_model("x" * 5000 + "\x1b[31m"), 404),
        (no_backend(), 503),
    ],
)
def test_every_refusal_is_one_clear_sentence(answer: Answer, status: int) -> None:
    """JSON with message, type, param and code; the reason in a header; no control characters."""
    assert answer.status == status
    error = orjson.loads(answer.body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert "\x1b" not in error["message"]
    assert len(error["message"]) < 400
    headers = dict(answer.headers)
    assert headers["content-type"] == "application/json"
    assert headers["x-outrigger-error"] == answer.reason
