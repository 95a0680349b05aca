"""Values as JSON: camelCase names, times as RFC 3339 in UTC, bytes never (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

import orjson
from pydantic.alias_generators import to_camel

# What orjson does by itself is done in C: thousands of sidecars with their histograms are one answer.
_OPTIONS: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_NON_STR_KEYS


def to_json(value: object) -> bytes:
    """Return `value` (dataclasses, mappings, lists, texts, numbers, enums, times) as JSON.

    Names of dataclass fields become camelCase, keys of mappings stay. A field that is left out of its
    dataclass's repr is left out here.

    Raises:
        TypeError: something in it has no place in an answer: bytes first of all.
    """
    return orjson.dumps(value, _plain, _OPTIONS)


def fields_of(value: object, leave_out: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the fields of a dataclass by their names in an answer, without those of `leave_out`."""
    kind: Any = type(value)
    return {name: getattr(value, field) for field, name in _names(kind) if field not in leave_out}


def timestamp(at: datetime) -> str:
    """Return `at` in UTC: `2026-01-31T08:00:00.123456Z`."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _plain(value: object) -> Any:
    if isinstance(value, datetime):
        return timestamp(value)
    if is_dataclass(value) and not isinstance(value, type):
        return fields_of(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)


@cache
def _names(kind: Any) -> tuple[tuple[str, str], ...]:
    return tuple((item.name, to_camel(item.name)) for item in fields(kind) if item.repr)
