"""Values as JSON: camelCase names, times as RFC 3339 in UTC, bytes never (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import orjson
from pydantic.alias_generators import to_camel


def to_json(value: object) -> bytes:
    """Return `value` (dataclasses, mappings, lists, texts, numbers) as JSON.

    Raises:
        TypeError: something in it has no place in an answer.
    """
    return orjson.dumps(to_wire(value))


def to_wire(value: object) -> Any:
    """Return `value` as plain JSON values. Names of dataclass fields become camelCase; keys stay."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return timestamp(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {
            to_camel(item.name): to_wire(getattr(value, item.name)) for item in fields(value) if item.repr
        }
    if isinstance(value, Mapping):
        return {str(key): to_wire(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_wire(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no place in an answer")


def timestamp(at: datetime) -> str:
    """Return `at` in UTC: `2026-01-31T08:00:00.123456Z`."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
