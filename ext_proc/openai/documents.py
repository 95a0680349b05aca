"""JSON bodies in and out, exactly (pure): no key twice, no number changed, bounded nesting.

orjson does the work; two things it does silently are caught here. It keeps the last of two equal keys,
and it reads a number that needs more than 64 bits as the nearest float.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import orjson

from ext_proc.openai.errors import ErrorCode, plain_text

_MAX_SHOWN_KEY: Final = 64
_INT64_MIN: Final = -(2**63)
_UINT64_MAX: Final = 2**64 - 1
_LONG_TEXTS: Final = 256  # bytes a member
_LARGE: Final = 16 * 1024
_FEW_TEXTS: Final = 1024  # bytes a quotation mark
_COLON: Final = re.compile(rb"[ \t\r\n]*:")
_WHITE_SPACE: Final = b" \t\r\n"
_FEIGNED_COLON: Final = re.compile(rb"\\u00(?:20|3[aA])")
# Digits and the point become 0, an exponent's letter e, a minus stays: the shape of the numbers in a body.
_NUMBER_SHAPE: Final = bytes(
    ord("0") if byte in b"0123456789." else ord("e") if byte in b"eE" else byte if byte in b"-" else ord(" ")
    for byte in range(256)
)
_LONG_NUMBER: Final = b"0" * 16
_LOW_EXPONENT: Final = b"0e-000"


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
    checked = body if len(body) < _LARGE else _without_long_texts(body)
    try:
        written = orjson.dumps(document if checked is body else orjson.loads(checked))
    except TypeError as error:
        raise InvalidDocument("The request body is nested too deeply.") from error
    # What comes out as it came in has no key twice and no number that was changed.
    return document if written == checked or _is_faithful(checked, written) else _decode_closely(body)


def encode(document: dict[str, Any], *, sort_keys: bool = False) -> bytes:
    """Write a document that `decode` gave (and a policy may have changed) as compact JSON."""
    return orjson.dumps(document, _write_number, orjson.OPT_SORT_KEYS if sort_keys else 0)


def _write_number(value: object) -> orjson.Fragment:
    if isinstance(value, WrittenNumber):
        return orjson.Fragment(value.text)
    raise TypeError


def _without_long_texts(body: bytes) -> bytes:
    """Return `body`, which is JSON, with its long texts empty: keys, numbers and nesting are as they were.

    Pictures and long prompts are most of a large body, and there is nothing to check in them. Where they are
    not, `body` itself is returned.
    """
    parts, kept, most = [], 0, len(body) // _FEW_TEXTS
    opening, mark = -1, body.find(b'"')
    while mark >= 0:
        if opening < 0:
            opening = mark
        elif not _is_escaped(body, mark):
            if mark - opening > _LONG_TEXTS and not _COLON.match(body, mark + 1):
                parts.append(body[kept : opening + 1])
                kept = mark
            opening = -1
        most -= 1
        if most < 0:
            return body
        mark = body.find(b'"', mark + 1)
    parts.append(body[kept:])
    without = b"".join(parts)
    # It is read once more, which pays only where much has gone.
    return without if len(without) < len(body) // 2 else body


def _is_escaped(body: bytes, mark: int) -> bool:
    """Return whether an odd number of backslashes stands before the quotation mark in a text."""
    width = 16
    while not (text := body[max(0, mark - width) : mark]).rstrip(b"\\"):
        width *= 2  # nothing but backslashes so far
    return (len(text) - len(text.rstrip(b"\\"))) % 2 == 1


def _is_faithful(body: bytes, written: bytes) -> bool:
    """Return whether `written` surely has every member and every number of `body`, which was read into it.

    All of it runs at the speed of memory: a body of 20 MiB must not hold the others up.
    """
    # JSON never needs white space between tokens: taking it out, within texts too, keeps the structure.
    packed, expected = body.translate(None, _WHITE_SPACE), written.translate(None, _WHITE_SPACE)
    if packed == expected:
        return True
    # Escapes or number formats differ. Where members are few and texts long, reading closely is cheaper.
    if len(body) > _LONG_TEXTS * written.count(b'":'):
        return False
    # Count the members; see _members for what a text can feign.
    if _FEIGNED_COLON.search(packed) is not None or _members(packed) != _members(expected):
        return False
    # A float holds 15 digits exactly, unless its exponent is so low that digits are lost.
    shape = body.translate(_NUMBER_SHAPE)
    return _LONG_NUMBER not in shape and _LOW_EXPONENT not in shape


def _members(packed: bytes) -> int:
    """Return the number of members in packed JSON, plus that of the texts that begin with a colon.

    Within a text a quotation mark is always escaped, so `":` is the end of a key or the start of such a
    text. A text that is kept counts alike before and after, unless its colon was written as an escape.
    """
    plain = packed.replace(b"\\\\", b"__")
    return plain.count(b'":') - plain.count(b'\\":')


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
    written = repr(number)
    return number if written == text or _is_same(text, written) else WrittenNumber(text)


def _is_same(text: str, written: str) -> bool:
    try:
        return Decimal(text) == Decimal(written)
    except InvalidOperation:  # an exponent of more digits than there is any use for
        return False
