"""Tests of what Envoy says on its own account."""

from __future__ import annotations

import json

from ext_proc.agent.local_replies import REPLIES, render_local_replies


def test_our_own_answers_come_first_and_stay() -> None:
    """The first mappers match cache hits, then all the processor's answers, and change nothing."""
    hits, ours = render_local_replies()[:2]
    assert list(hits) == list(ours) == ["filter"]
    matcher = hits["filter"]["metadata_filter"]["matcher"]
    assert (matcher["filter"], matcher["path"]) == ("outrigger", [{"key": "cache"}])
    condition = ours["filter"]["extension_filter"]["typed_config"]["expression"]
    assert "startsWith('outrigger')" in condition
    assert "'direct_response'" in condition


def test_every_reply_is_an_error_in_openais_shape() -> None:
    """Each body is JSON with message, type, param and code, and names its reason in a header."""
    for reply, mapper in zip(REPLIES, render_local_replies()[2:], strict=True):
        body = mapper["body_format_override"]["text_format_source"]["inline_string"]
        error = json.loads(body)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["code"] == reply.reason.replace("-", "_")
        assert "%" not in body  # it would begin one of Envoy's format commands
        assert mapper["headers_to_add"][0]["header"] == {"key": "x-outrigger-error", "value": reply.reason}


def test_where_requests_have_no_id_none_is_told() -> None:
    """The reason alone is."""
    for mapper in render_local_replies(named=False)[2:]:
        assert [one["header"]["key"] for one in mapper["headers_to_add"]] == ["x-outrigger-error"]
