"""Reading single fields of a request body, with OpenAI's error for each way to get one wrong (pure)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import orjson

from control_plane.tools.provider.errors import ApiError, missing, out_of_range, wrong_type

Body = Mapping[str, Any]

NOT_JSON = (
    "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP "
    "library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)"
)


def json_object(raw: bytes) -> dict[str, Any]:
    """Return the JSON object in `raw`.

    Raises:
        ApiError: 400, it is no JSON, or no object.
    """
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise ApiError(400, NOT_JSON) from None
    if not isinstance(value, dict):
        raise ApiError(400, NOT_JSON)
    return value


def text(body: Body, name: str, default: str = "") -> str:
    """Return the string called `name`, or `default` when it is absent or null."""
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        raise wrong_type(name, "a string", value)
    return value


def flag(body: Body, name: str) -> bool:
    """Return the boolean called `name`; absent or null is False."""
    value = body.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise wrong_type(name, "a boolean", value)
    return value


def whole(body: Body, name: str, low: int, high: int) -> int | None:
    """Return the integer called `name`, checked to be in [low, high], or None when absent or null."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(name, "an integer", value)
    if not low <= value <= high:
        raise out_of_range(name, f"from {low} to {high}")
    return value


def number(body: Body, name: str, low: float, high: float) -> float | None:
    """Return the number called `name`, checked to be in [low, high], or None when absent or null."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise wrong_type(name, "a decimal", value)
    if not low <= value <= high:
        raise out_of_range(name, f"from {low:g} to {high:g}")
    return float(value)


def mapping(body: Body, name: str) -> Body:
    """Return the object called `name`; absent or null is an empty one."""
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise wrong_type(name, "an object", value)
    return value


def model_name(body: Body, path_model: str) -> str:
    """Return the model asked for; `path_model` is the deployment in an Azure path, else "".

    Raises:
        ApiError: 400, there is none or it is no string.
    """
    name = path_model or text(body, "model")
    if not name:
        raise ApiError(400, "you must provide a model parameter")
    return name


def texts(body: Body, name: str) -> tuple[str, ...]:
    """Return a required prompt or input: a text, a list of texts, or lists of token ids, each as one text.

    Raises:
        ApiError: 400, absent, empty, or of another type.
    """
    value = body.get(name)
    if value is None:
        raise missing(name)
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list):
        raise wrong_type(name, "a string or an array", value)
    if not value:
        raise out_of_range(name, "with at least one item")
    if _is_token_ids(value):
        return (_from_token_ids(value),)
    return tuple(_one_text(item, f"{name}[{place}]") for place, item in enumerate(value))


def stops(body: Body) -> tuple[str, ...]:
    """Return the stop sequences: one string or up to four."""
    value = body.get("stop")
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise wrong_type("stop", "a string or an array of strings", value)
    if len(value) > 4:
        raise out_of_range("stop", "with at most 4 items")
    return tuple(value)


def _one_text(item: object, name: str) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, list) and _is_token_ids(item):
        return _from_token_ids(item)
    raise wrong_type(name, "a string", item)


def _is_token_ids(items: list[Any]) -> bool:
    return bool(items) and all(isinstance(item, int) and not isinstance(item, bool) for item in items)


def _from_token_ids(items: list[int]) -> str:
    """Return a stand-in text that is one token an id long, and different for different ids."""
    return "".join(f"{item % 9999:>4}" for item in items)
