"""Durations in the JSON form of protobuf (pure)."""

from __future__ import annotations


def seconds(milliseconds: int) -> str:
    """Return `milliseconds` as protobuf's JSON writes a Duration: `1.5s`."""
    whole, rest = divmod(milliseconds, 1000)
    return f"{whole}.{rest:03d}s" if rest else f"{whole}s"
