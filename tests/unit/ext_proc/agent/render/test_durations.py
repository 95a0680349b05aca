"""Tests of durations in protobuf's JSON form."""

from __future__ import annotations

import pytest

from ext_proc.agent.render.durations import seconds


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0s"), (1, "0.001s"), (1_500, "1.500s"), (25_000, "25s"), (10**10, "10000000s")],
)
def test_milliseconds_are_written_exactly(milliseconds: int, text: str) -> None:
    """No rounding and no exponent, however large."""
    assert seconds(milliseconds) == text
