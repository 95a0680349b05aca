"""Durations (`200ms`, `1h30m`) and sizes (`64MiB`) as field types.

Inside they are whole milliseconds and bytes. The duration grammar is `([0-9]+(\\.[0-9]+)?(ms|s|m|h))+`.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, Field

_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h))+")
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(B|KiB|MiB|GiB|kB|KB|MB|GB)")
_BYTES = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
}
# Ten years. Longer is a slip of the pen, and Envoy's timers would overflow.
MAX_DURATION_MS = 10 * 366 * 24 * 3_600_000
_MAX_TEXT = 64


def parse_duration_ms(value: object) -> int:
    """Return `value` (text such as `1m30s`) in whole milliseconds, fractions rounded to the nearest.

    Raises:
        ValueError: not of the grammar, or above ten years.
    """
    if not isinstance(value, str) or len(value) > _MAX_TEXT or not _DURATION.fullmatch(value):
        raise ValueError("must be a duration such as 200ms, 30s or 24h")
    parts = _DURATION_PART.findall(value)
    total_ms = round(sum(Decimal(number) * _MS[unit] for number, unit in parts))
    if total_ms > MAX_DURATION_MS:
        raise ValueError("is longer than ten years")
    return total_ms


def parse_positive_duration_ms(value: object) -> int:
    """Return `value` in whole milliseconds, of which there is at least one.

    Raises:
        ValueError: no duration, or nothing.
    """
    milliseconds = parse_duration_ms(value)
    if milliseconds < 1:
        raise ValueError("must be at least 1ms")
    return milliseconds


def parse_size_bytes(value: object) -> int:
    """Return `value` (text such as `64MiB`, or a whole number of bytes) in bytes.

    Raises:
        ValueError: anything else.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = _SIZE.fullmatch(value) if isinstance(value, str) and len(value) <= _MAX_TEXT else None
    if found is None:
        raise ValueError("must be a size such as 64MiB, or a number of bytes")
    return round(Decimal(found[1]) * _BYTES[found[2]])


def duration_text(milliseconds: int) -> str:
    """Return `milliseconds` as written, in the largest unit that leaves no fraction: `24h`, `90s`."""
    unit = next(unit for unit in ("h", "m", "s", "ms") if milliseconds % _MS[unit] == 0)
    return f"{milliseconds // _MS[unit]}{unit}" if milliseconds else "0s"


def size_text(size_bytes: int) -> str:
    """Return `size_bytes` as written, in the largest binary unit that leaves no fraction: `64MiB`."""
    unit = next(unit for unit in ("GiB", "MiB", "KiB", "B") if size_bytes % _BYTES[unit] == 0)
    return f"{size_bytes // _BYTES[unit]}{unit}"


DurationMs = Annotated[int, BeforeValidator(parse_duration_ms)]
"""A duration that may be nothing (`0s`)."""

PositiveDurationMs = Annotated[int, BeforeValidator(parse_positive_duration_ms)]
"""A duration of at least a millisecond."""

SizeBytes = Annotated[int, BeforeValidator(parse_size_bytes), Field(ge=1, le=1 << 40)]
"""A size of at least one byte."""
