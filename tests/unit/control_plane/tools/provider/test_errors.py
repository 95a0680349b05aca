"""Errors have OpenAI's shape."""

from __future__ import annotations

import json

import pytest

from control_plane.tools.provider import errors


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.missing("messages"), 400, "missing_required_parameter"),
        (errors.wrong_type("n", "an integer", "x"), 400, "invalid_type"),
        (errors.out_of_range("n", "from 1 to 128"), 400, "invalid_value"),
        (errors.unknown_model("x"), 404, "model_not_found"),
        (errors.unknown_url("POST", "/v1/x"), 404, "unknown_url"),
        (errors.wrong_method("GET", "/v1/embeddings", "POST"), 405, "method_not_supported"),
        (errors.wrong_key(), 401, "invalid_api_key"),
        (errors.overloaded(), 503, "engine_overloaded"),
        (errors.injected(429), 429, "rate_limit_exceeded"),
        (errors.injected(418), 418, "injected"),
        (errors.injected(502), 502, None),
    ],
)
def test_shape(error: errors.ApiError, status: int, code: str | None) -> None:
    """Each error is one object with message, type, param and code, and the status that goes with it."""
    body = json.loads(error.body())
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert (error.status, body["error"]["code"]) == (status, code)
    assert body["error"]["message"]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (True, "a boolean"),
        (3, "an integer"),
        (0.5, "a decimal"),
        ("x", "a string"),
        ([], "an array"),
        ({}, "an object"),
        (None, "null"),
    ],
)
def test_names_the_type_that_came(value: object, name: str) -> None:
    """A wrong type is called by its JSON name."""
    assert errors.wrong_type("n", "something", value).message.endswith(f"but got {name} instead.")
