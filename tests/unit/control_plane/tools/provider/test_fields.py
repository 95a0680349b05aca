"""Fields of a request body are read or refused as OpenAI does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.tools.provider import fields
from control_plane.tools.provider.errors import ApiError


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[]",
        b"5",
        b'""',
        b"{",
        b'{"a": NaN}',
        b"\xef\xbb\xbf{}",
        '{"a": 1}'.encode("utf-16"),
        b"{} x",
        b'{"a": "\xff"}',
        b'{"a":' * 5000,
    ],
)
def test_not_json(raw: bytes) -> None:
    """What is no JSON object is one 400."""
    with pytest.raises(ApiError) as caught:
        fields.json_object(raw)
    assert caught.value.status == 400


@given(st.binary(max_size=40))
def test_any_bytes_are_an_object_or_a_400(raw: bytes) -> None:
    """No input raises anything else."""
    try:
        assert isinstance(fields.json_object(raw), dict)
    except ApiError as error:
        assert error.status == 400


def test_the_last_of_doubled_keys_counts() -> None:
    """Doubled keys are read as most parsers do."""
    assert fields.json_object(b'{"model": "a", "model": "b"}') == {"model": "b"}


@pytest.mark.parametrize(
    ("read", "value"),
    [
        pytest.param(lambda body: fields.flag(body, "x"), "yes", id="text-for-boolean"),
        pytest.param(lambda body: fields.whole(body, "x", 1, 5), True, id="boolean-for-integer"),
        pytest.param(lambda body: fields.whole(body, "x", 1, 5), 1.5, id="fraction-for-integer"),
        pytest.param(lambda body: fields.whole(body, "x", 1, 5), 6, id="integer-too-large"),
        pytest.param(lambda body: fields.number(body, "x", 0, 2), 2.01, id="number-too-large"),
        pytest.param(lambda body: fields.number(body, "x", 0, 2), float("inf"), id="infinite"),
        pytest.param(lambda body: fields.text(body, "x"), 5, id="number-for-text"),
        pytest.param(lambda body: fields.mapping(body, "x"), [], id="list-for-object"),
        pytest.param(lambda body: fields.texts(body, "x"), None, id="no-input"),
        pytest.param(lambda body: fields.texts(body, "x"), [], id="empty-input"),
        pytest.param(lambda body: fields.texts(body, "x"), 7, id="number-for-input"),
        pytest.param(lambda body: fields.texts(body, "x"), ["a", 5], id="mixed-input"),
    ],
)
def test_refused(read: Any, value: object) -> None:
    """A wrong type or range is a 400 that names the parameter."""
    with pytest.raises(ApiError) as caught:
        read({"x": value})
    assert caught.value.status == 400
    assert caught.value.param is not None
    assert caught.value.param.startswith("x")


@pytest.mark.parametrize(
    ("value", "count"),
    [("a", 1), (["a", "b"], 2), ([1, 2, 3], 1), ([[1, 2], [3]], 2), (["a", [1]], 2)],
)
def test_texts(value: object, count: int) -> None:
    """A prompt is a text, token ids, or a list of either."""
    assert len(fields.texts({"x": value}, "x")) == count


def test_token_ids_differ() -> None:
    """Different token ids stand for different texts."""
    assert fields.texts({"x": [1, 2]}, "x") != fields.texts({"x": [2, 1]}, "x")


@pytest.mark.parametrize(("value", "found"), [(None, ()), ("a", ("a",)), (["a", "b"], ("a", "b"))])
def test_stops(value: object, found: tuple[str, ...]) -> None:
    """Stop sequences are one text or several."""
    assert fields.stops({"stop": value}) == found


@pytest.mark.parametrize("value", [5, ["a", 5], ["a"] * 5])
def test_stops_refused(value: object) -> None:
    """At most four stop sequences, all texts."""
    with pytest.raises(ApiError):
        fields.stops({"stop": value})


def test_the_path_names_the_model() -> None:
    """Azure's deployment in the path wins over the body; without either it is a 400."""
    assert fields.model_name({"model": "a"}, "deployed") == "deployed"
    with pytest.raises(ApiError, match="you must provide a model parameter"):
        fields.model_name({}, "")
