"""Amounts as people read them (pure): times, sizes, shares, counts. Trusts no answer's form."""

from __future__ import annotations

from typing import Any, Final

_SPANS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
_SIZES: Final = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def number(value: Any) -> float:
    """Return `value` when it is a number, else 0."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def span(seconds: Any) -> str:
    """Return `7ms`, `12s`, `3m`, `5h` or `2d`: from seconds on the largest unit of which there are two."""
    left = max(number(seconds), 0.0)
    if 0 < left < 1:
        return f"{1000 * left:.0f}ms"
    for unit_s, name in _SPANS:
        if left >= 2 * unit_s or unit_s == 1:
            return f"{left / unit_s:.0f}{name}"
    return ""


def size(count: Any) -> str:
    """Return `812 B`, `80.1 KiB`, `64.0 MiB`."""
    found = number(count)
    for unit, name in _SIZES:
        if found >= unit:
            return f"{found / unit:.1f} {name}"
    return f"{found:.0f} B"


def share(ratio: Any) -> str:
    """Return `39.8%`, "" for none."""
    return f"{100 * number(ratio):.1f}%" if ratio is not None else ""


def grouped(count: Any) -> str:
    """Return a whole number in groups of three: `12,345`."""
    return f"{number(count):,.0f}"
