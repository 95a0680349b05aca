"""Buckets of times and lengths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.contract.buckets import BUCKET_GROWTH, bucket


@given(st.floats(0.001, 3600))
def test_a_bucket_holds_what_is_between_its_bounds(seconds: float) -> None:
    """Neighbouring bounds differ by 10 %."""
    index = bucket(seconds)
    milliseconds = seconds * 1000
    assert BUCKET_GROWTH ** (index - 1) < milliseconds * (1 + 1e-9)
    assert milliseconds <= BUCKET_GROWTH**index * (1 + 1e-9)


@pytest.mark.parametrize("seconds", [0.0, 0.0005, 0.001])
def test_what_is_shorter_than_a_millisecond_is_one(seconds: float) -> None:
    """Finer than that nobody asks."""
    assert bucket(seconds) == 0
