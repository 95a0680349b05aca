"""Requests: what is refused, what passes, and when two are the same question."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.openai.errors import ErrorCode
from ext_proc.openai.paths import Operation
from ext_proc.openai.requests import (
    MAX_MODEL_CHARS,
    BadRequest,
    Request,
    cache_key,
    encode,
    parse_request,
    read_number,
)

JSON_TYPE = "application/json"
PLAIN: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def read(document: Any, operation: Operation = Operation.CHAT) -> Request:
    """Parse `document` as a client would send it."""
    return parse_request(operation, json.dumps(document).encode(), JSON_TYPE, None)


def refusal(body: bytes, content_type: str | None = JSON_TYPE, encoding: str | None = None) -> BadRequest:
    """Return the refusal of `body`."""
    with pytest.raises(BadRequest) as caught:
        parse_request(Operation.CHAT, body, content_type, encoding)
    return caught.value


def key(document: dict[str, Any], tenant: str = "t", version: str = "v") -> bytes:
    """Return the cache key of `document`."""
    return cache_key(tenant, version, read(document))


def test_a_request_is_read() -> None:
    """Model and stream are there, the rest stays in the document."""
    found = read({**PLAIN, "stream": True, "x_future": 1})
    assert (found.model, found.stream, found.document["x_future"]) == ("m", True, 1)
    assert not read(PLAIN).stream
    assert not read({**PLAIN, "stream": None}).stream
    assert not read({**PLAIN, "stream": False}).stream


def test_a_changed_document_is_written() -> None:
    """A policy changes the document in place and sends what encode gives."""
    found = read(PLAIN)
    found.document["model"] = "模型"
    assert json.loads(encode(found.document)) == {**PLAIN, "model": "模型"}


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json; charset=utf-8",
        "Application/JSON;charset=UTF-8",
        'application/json; charset="utf-8"',
        "application/json ; odd=1; charset=utf8",
        "application/json;",
        "application/vnd.acme+json",
    ],
)
def test_json_media_types_pass(content_type: str) -> None:
    """Parameters, case and structured suffixes are fine."""
    assert parse_request(Operation.CHAT, b'{"model":"m"}', content_type, "identity").model == "m"


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "text/plain",
        "text/json",
        "multipart/form-data; boundary=x",
        "application/x-www-form-urlencoded",
        "application/json; charset=utf-16",
        "application/json; charset=latin-1",
        "application/+json",
        "application/jsonp",
        "application/json, text/plain",
    ],
)
def test_other_media_types_are_415(content_type: str | None) -> None:
    """What might be read in another way is not read at all."""
    found = refusal(b'{"model":"m"}', content_type)
    assert (found.status, found.code) == (415, ErrorCode.UNSUPPORTED_MEDIA_TYPE)


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "br", "deflate", "zstd", "identity, gzip", "x"])
def test_coded_bodies_are_415(encoding: str) -> None:
    """A coded body would pass the policies unread."""
    found = refusal(b"\x1f\x8b", encoding=encoding)
    assert (found.status, found.code) == (415, ErrorCode.UNSUPPORTED_ENCODING)


@pytest.mark.parametrize("encoding", ["", "identity", "Identity", "identity, identity"])
def test_identity_is_no_coding(encoding: str) -> None:
    """Identity says that there is none."""
    assert parse_request(Operation.CHAT, b'{"model":"m"}', JSON_TYPE, encoding).model == "m"


@pytest.mark.parametrize(
    ("model", "code"),
    [
        (None, ErrorCode.INVALID_TYPE),
        (3, ErrorCode.INVALID_TYPE),
        (True, ErrorCode.INVALID_TYPE),
        ({"name": "m"}, ErrorCode.INVALID_TYPE),
        (["m"], ErrorCode.INVALID_TYPE),
        ("", ErrorCode.INVALID_VALUE),
        ("m" * (MAX_MODEL_CHARS + 1), ErrorCode.INVALID_VALUE),
        ("m\n", ErrorCode.INVALID_VALUE),
        ("m\0", ErrorCode.INVALID_VALUE),
        ("m\x1b[2J", ErrorCode.INVALID_VALUE),
        ("m\u200b", ErrorCode.INVALID_VALUE),
        ("m\u2028", ErrorCode.INVALID_VALUE),
    ],
)
def test_bad_models_are_400(model: Any, code: ErrorCode) -> None:
    """The error says which parameter."""
    found = refusal(json.dumps({"model": model}).encode())
    assert (found.status, found.param, found.code) == (400, "model", code)


def test_a_missing_model_is_400() -> None:
    """As OpenAI answers."""
    found = refusal(b"{}")
    assert (found.status, found.param, found.code) == (400, "model", ErrorCode.MISSING_PARAMETER)


@pytest.mark.parametrize("model", ["模型", "Qwen/Qwen2 7B", "ft:gpt-4o:acme::x", "m" * MAX_MODEL_CHARS])
def test_models_of_every_script_pass(model: str) -> None:
    """A name may be any printable text."""
    assert read({"model": model}).model == model


@pytest.mark.parametrize("stream", ["yes", "true", 1, 0, [], {}, ""])
def test_a_stream_that_is_no_boolean_is_400(stream: Any) -> None:
    """A server that reads "yes" as true would stream where JSON is expected."""
    found = refusal(json.dumps({"model": "m", "stream": stream}).encode())
    assert (found.status, found.param, found.code) == (400, "stream", ErrorCode.INVALID_TYPE)


@pytest.mark.parametrize("messages", ["text", {}, [None], 3, None])
def test_other_fields_are_the_providers_business(messages: Any) -> None:
    """What no policy reads is passed on as it is."""
    assert read({"model": "m", "messages": messages}).document["messages"] == messages


def test_the_refusal_has_the_parts_of_openais_error() -> None:
    """Message, param and code."""
    found = refusal(b'{"model":"m","model":"n"}')
    assert (found.status, found.param, found.code) == (400, "model", ErrorCode.DUPLICATE_KEY)
    assert found.message == "The key 'model' is given twice in one object of the body."


def test_numbers_for_policies() -> None:
    """Absent and null are none; what a lenient provider might read as a number is refused."""
    document = {"a": 0.5, "b": 3, "c": None, "d": "0.9", "e": True, "f": [1]}
    assert read_number(document, "a") == 0.5
    assert read_number(document, "b") == 3
    assert read_number(document, "c") is None
    assert read_number(document, "z") is None
    for name in "def":
        with pytest.raises(BadRequest) as caught:
            read_number(document, name)
        assert (caught.value.status, caught.value.param) == (400, name)


@pytest.mark.parametrize(
    "more",
    [
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"tool_choice": "none"},
        {"response_format": {"type": "json_object"}},
        {"seed": 1},
        {"stop": ["x"]},
        {"n": 2},
        {"logit_bias": {"1": 1}},
        {"parallel_tool_calls": False},
        {"temperature": 0.1},
        {"top_p": 0.1},
        {"max_tokens": 5},
        {"max_completion_tokens": 5},
        {"x_future": 1},
        {"x_future": None},
        {"messages": [{"role": "system", "content": "S"}, *PLAIN["messages"]]},
        {"messages": [{"role": "user", "content": "hi"}]},
        {"messages": [{"role": "user", "content": "Hi", "user": "nested"}]},
    ],
    ids=lambda more: next(iter(more)),
)
def test_every_other_field_splits_the_key(more: dict[str, Any]) -> None:
    """Only what is known to be irrelevant is left out."""
    assert key({**PLAIN, **more}) != key(PLAIN)
    assert key({**PLAIN, **more}) == key({**PLAIN, **more})


@pytest.mark.parametrize(
    "more",
    [
        {"user": "u"},
        {"stream": True},
        {"stream_options": {"include_usage": True}},
        {"metadata": {"a": "b"}},
        {"store": True},
        {"model": "alias"},
    ],
    ids=lambda more: next(iter(more)),
)
def test_irrelevant_fields_do_not_split_the_key(more: dict[str, Any]) -> None:
    """They change neither the answer nor its cost; the version stands for the model's name."""
    assert key({**PLAIN, **more}) == key(PLAIN)


def test_key_order_and_white_space_do_not_matter_but_message_order_does() -> None:
    """Whatever the order of keys, in nested tool schemas too."""
    first = (
        b'{"model":"m","messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}],'
        b'"tools":[{"type":"function","function":{"name":"f","parameters":{"b":1,"a":{"y":1,"x":2}}}}]}'
    )
    other = (
        b'{ "tools" : [ {"function": {"parameters": {"a": {"x": 2, "y": 1}, "b": 1}, "name": "\\u0066"},\n'
        b'"type":"function"}], "messages": [{"content":"a","role":"user"},{"content":"b","role":"user"}],'
        b'"model":"m"}\n'
    )
    swapped = (
        first.replace(b'"content":"a"', b'"content":"?"').replace(b'"b"}]', b'"a"}]').replace(b"?", b"b")
    )
    keys = [
        cache_key("t", "v", parse_request(Operation.CHAT, body, JSON_TYPE, None))
        for body in (first, other, swapped)
    ]
    assert keys[0] == keys[1]
    assert keys[0] != keys[2]


def test_types_and_unicode_forms_are_told_apart() -> None:
    """1, 1.0, true, "1" and null are five questions; so are two Unicode forms of one glyph."""
    values = [
        1,
        1.0,
        True,
        "1",
        None,
        [1],
        "é",
        "e\u0301",
        123456789012345678901234567890,
        1.2345678901234568e29,
    ]
    assert len({key({**PLAIN, "x": value}) for value in values}) == len(values)


def test_tenant_version_and_operation_split_the_key() -> None:
    """No two of them can be shifted into each other."""
    pairs = [("t", "v"), ("t2", "v"), ("t", "v2"), ("", "tv"), ("tv", ""), ('t","v', "")]
    keys = {key(PLAIN, tenant, version) for tenant, version in pairs}
    keys.add(cache_key("t", "v", read(PLAIN, Operation.COMPLETIONS)))
    assert len(keys) == len(pairs) + 1
    assert all(len(found) == 32 for found in keys)


def test_the_document_is_left_alone() -> None:
    """Making a key takes nothing out of what goes upstream."""
    found = read({**PLAIN, "user": "u", "stream": True})
    before = encode(found.document)
    cache_key("t", "v", found)
    assert encode(found.document) == before


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def canonical(value: Any) -> str:
    """Write `value` with the standard library, keys sorted."""
    return json.dumps(value, sort_keys=True)


@given(VALUES, VALUES)
def test_keys_are_equal_exactly_when_the_json_is(one: Any, other: Any) -> None:
    """Two values of an unknown field give one key only if they are the same JSON."""
    same = canonical(one) == canonical(other)
    assert (key({**PLAIN, "x": one}) == key({**PLAIN, "x": other})) is same


def test_embeddings_are_never_a_stream() -> None:
    """Nothing is asked of the provider that only streams have; the field itself goes up as it came."""
    body = b'{"model":"m","input":"a","stream":true}'
    request = parse_request(Operation.EMBEDDINGS, body, "application/json", None)
    assert not request.stream
    assert encode(request.document) == body
