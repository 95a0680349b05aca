"""The list of models as clients read it."""

from __future__ import annotations

import json

from ext_proc.openai.catalog import ModelCard, model_body, model_list_body, model_not_found_body

CARD = ModelCard("gpt-4o-mini", 1_764_000_000)
SHOWN = {"id": "gpt-4o-mini", "object": "model", "created": 1_764_000_000, "owned_by": "outrigger"}


def test_the_list_has_openais_shape() -> None:
    """An object `list` of objects `model`, in the order given."""
    body = json.loads(model_list_body([CARD, ModelCard("模型", 5, "team")]))
    assert body["object"] == "list"
    assert body["data"] == [SHOWN, {"id": "模型", "object": "model", "created": 5, "owned_by": "team"}]
    assert json.loads(model_list_body([])) == {"object": "list", "data": []}


def test_one_model() -> None:
    """The same object alone."""
    assert json.loads(model_body(CARD)) == SHOWN


def test_an_unknown_model_is_openais_404() -> None:
    """Code `model_not_found`, and the name is shown cut and without control characters."""
    error = json.loads(model_not_found_body("x\n" + "y" * 5_000))["error"]
    assert (error["type"], error["param"], error["code"]) == (
        "invalid_request_error",
        "model",
        "model_not_found",
    )
    assert "\n" not in error["message"]
    assert len(error["message"]) < 400
