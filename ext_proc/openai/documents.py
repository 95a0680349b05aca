"""JSON bodies in and out, exactly (pure): no key twice, no number changed, bounded nesting.

orjson does the work; two things it does silently are caught here. It keeps the last of two equal keys,
and it reads a number that needs more than 64 bits as the nearest float.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, Final

import orjson

from ext_proc.openai.errors import ErrorCode, plain_text

_MAX_SHOWN_KEY: Final = 64
_INT64_MIN: Final = -(2**63)
_UINT64_MAX: Final = 2**64 - 1


class InvalidDocument(ValueError):
    """A body that is not one well-formed JSON object. `key` is set when a key came twice."""

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.key = key
        self.code = ErrorCode.INVALID_JSON if key is None else ErrorCode.DUPLICATE_KEY


class WrittenNumber(float):
    """A number whose value a float cannot hold; it is written back as it was read."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> WrittenNumber:
        """Read `text`, a JSON number."""
        number = super().__new__(cls, text)
        number.text = text
        return number


def decode(body: bytes) -> dict[str, Any]:
    """Read one JSON object.

    Raises:
        InvalidDocument: not UTF-8, not JSON, no object, nested too deeply, or a key twice in one object.
    """
    if not body:
        raise InvalidDocument("The request body is empty.")
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidDocument(
            f"The request body is not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})."
        ) from error
    if document.__class__ is not dict:
        raise InvalidDocument("The request body must be a JSON object.")
    try:
        written = orjson.dumps(document)
    except TypeError as error:
        raise InvalidDocument("The request body is nested too deeply.") from error
    # What comes out as it came in has no key twice and no number that was changed.
    return document if written == body else _decode_closely(body)


def encode(document: dict[str, Any], *, sort_keys: bool = False) -> bytes:
    """Write a document that `decode` gave (and a policy may have changed) as compact JSON."""
    return orjson.dumps(document, _write_number, orjson.OPT_SORT_KEYS if sort_keys else 0)


def _write_number(value: object) -> orjson.Fragment:
    if isinstance(value, WrittenNumber):
        return orjson.Fragment(value.text)
    raise TypeError


def _decode_closely(body: bytes) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        body, object_pairs_hook=_unique, parse_int=_read_int, parse_float=_read_float
    )
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                shown = plain_text(key, _MAX_SHOWN_KEY)
                raise InvalidDocument(f"The key '{shown}' is given twice in one object of the body.", shown)
            seen.add(key)
    return members


def _read_int(text: str) -> int | WrittenNumber:
    number = int(text)
    return number if _INT64_MIN <= number <= _UINT64_MAX else WrittenNumber(text)


def _read_float(text: str) -> float:
    number = float(text)
    return number if Decimal(text) == Decimal(repr(number)) else WrittenNumber(text)
