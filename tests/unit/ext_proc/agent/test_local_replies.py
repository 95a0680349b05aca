"""Tests of what Envoy says on its own account."""

from __future__ import annotations

import json

from ext_proc.agent.local_replies import REPLIES, render_local_replies


def test_our_own_answers_come_first_and_stay() -> None:
    """The first mapper matches the processor's answers and direct responses, and changes nothing."""
    first = render_local_replies()[0]
    assert list(first) == ["filter"]
    condition = first["filter"]["extension_filter"]["typed_config"]["expression"]
    assert "startsWith('outrigger')" in condition
    assert "'direct_response'" in condition


def test_every_reply_is_an_error_in_openais_shape() -> None:
    """Each body is JSON with message, type, param and code, and names its reason in a header."""
    for reply, mapper in zip(REPLIES, render_local_replies()[1:], strict=True):
        body = mapper["body_format_override"]["text_format_source"]["inline_string"]
        error = json.loads(body)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["code"] == reply.reason.replace("-", "_")
        assert "%" not in body  # it would begin one of Envoy's format commands
        assert mapper["headers_to_add"][0]["header"] == {"key": "x-outrigger-error", "value": reply.reason}
