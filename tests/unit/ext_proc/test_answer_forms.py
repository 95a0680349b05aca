"""One answer in each form."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from ext_proc.answer_forms import EVENT_STREAM, JSON, Form, form_of, in_form, is_document, is_readable
from ext_proc.openai.deltas import NotJoinable
from tests.unit.ext_proc.exchanges import HELLO, exchange

ANSWER = orjson.dumps(
    {
        "choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1},
    }
)
USAGE = {"stream_options": {"include_usage": True}}


@pytest.mark.parametrize(
    ("more", "form"),
    [
        ({}, Form.JSON),
        (USAGE, Form.JSON),
        ({"stream": True}, Form.STREAM),
        ({"stream": True, "stream_options": {"include_usage": False}}, Form.STREAM),
        ({"stream": True, "stream_options": None}, Form.STREAM),
        ({"stream": True, **USAGE}, Form.STREAM_WITH_USAGE),
    ],
)
def test_the_form_is_the_one_that_was_asked_for(more: dict[str, Any], form: Form) -> None:
    """Usage is for streams whose caller wants it."""
    assert form_of(exchange(document={**HELLO, **more})) is form


def test_what_the_mesh_asked_for_is_not_the_callers() -> None:
    """The request may have been changed by then."""
    asked = exchange(document={**HELLO, "stream": True, **USAGE})
    asked.hides_usage = True
    assert form_of(asked) is Form.STREAM


@pytest.mark.parametrize(
    ("form", "kind", "usage"),
    [
        (Form.JSON, "x/y", True),
        (Form.STREAM, EVENT_STREAM, False),
        (Form.STREAM_WITH_USAGE, EVENT_STREAM, True),
    ],
)
def test_each_form_says_the_same(form: Form, kind: str, usage: bool) -> None:
    """JSON as it is, a stream as chunks."""
    body, content_type = in_form(exchange(), form, ANSWER, "x/y")
    assert (content_type, b"usage" in body, b"hi" in body) == (kind, usage, True)


def test_what_is_no_completion_has_no_stream() -> None:
    """It fails rather than to say something."""
    with pytest.raises(NotJoinable):
        in_form(exchange(), Form.STREAM, b"[1]", JSON)


@pytest.mark.parametrize(
    ("media_type", "whole"),
    [
        ("application/json", True),
        ("application/json; charset=utf-8", True),
        ("application/json ;charset=utf-8", True),
        ("text/json", True),
        ("application/vnd.provider.v1+json", True),
        ("application/problem+json;x=y", True),
        ("application/x-ndjson", False),
        ("application/ndjson", False),
        ("application/stream+json", False),
        ("application/stream+json; charset=utf-8", False),
        ("application/jsonl", False),
        ("application/json-seq", False),
        ("application/x-jsonlines", False),
        ("text/plain; like=application/json", False),
        ("text/event-stream", False),
        ("", False),
    ],
)
def test_documents_one_after_the_other_are_no_document(media_type: str, whole: bool) -> None:
    """They are a stream, though their type has `json` in it."""
    assert is_document(media_type) is whole


@pytest.mark.parametrize(
    ("status", "headers", "readable"),
    [
        (200, {}, True),
        (200, {"content-encoding": "identity"}, True),
        (200, {"content-encoding": "gzip"}, False),
        (201, {}, False),
        (429, {}, False),
    ],
)
def test_only_a_plain_200_is_read(status: int, headers: dict[str, str], readable: bool) -> None:
    """What is coded belongs to whoever asked for it so."""
    assert is_readable(status, headers) is readable
