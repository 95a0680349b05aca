"""A structural schema as a closed JSON Schema, to check documents as an API server does; CEL apart."""

from __future__ import annotations

from typing import Any

import jsonschema_rs


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """Return `schema` in JSON Schema's words, with unknown fields refused."""
    found = {key: value for key, value in schema.items() if not key.startswith("x-")}
    if schema.get("x-kubernetes-int-or-string"):
        found["type"] = ["integer", "string"]
    if found.pop("exclusiveMinimum", False):
        found["exclusiveMinimum"] = found.pop("minimum")
    if "properties" in found:
        found["properties"] = {name: closed(field) for name, field in found["properties"].items()}
        found["additionalProperties"] = False
    elif "additionalProperties" in found:
        found["additionalProperties"] = closed(found["additionalProperties"])
    if "items" in found:
        found["items"] = closed(found["items"])
    return found


def is_right(schema: dict[str, Any], value: object) -> bool:
    """Say whether `value` is of the schema."""
    return jsonschema_rs.is_valid(closed(schema), value)


def defaulted(schema: dict[str, Any], value: Any) -> Any:
    """Return `value` as the API server keeps it: with the schema's defaults in place, top down."""
    if "properties" in schema and isinstance(value, dict):
        missing = {
            name: field["default"]
            for name, field in schema["properties"].items()
            if "default" in field and name not in value
        }
        return {
            name: defaulted(schema["properties"][name], item) for name, item in {**value, **missing}.items()
        }
    if "items" in schema and isinstance(value, list):
        return [defaulted(schema["items"], item) for item in value]
    return value
