"""Histograms: merging, quantiles, what is beyond."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.releases.histograms import above, merged, minus, quantile, quantile_bucket, size

HISTOGRAMS = st.dictionaries(st.integers(0, 120), st.integers(1, 50), max_size=8)


@given(HISTOGRAMS, HISTOGRAMS)
@settings(max_examples=50)
def test_what_is_merged_comes_apart_again(one: dict[int, int], other: dict[int, int]) -> None:
    """Adding loses nothing."""
    both = merged(one, other)
    assert size(both) == size(one) + size(other)
    assert minus(both, one) == other


@given(HISTOGRAMS.filter(bool), st.floats(0.01, 0.99))
@settings(max_examples=50)
def test_a_quantile_lies_in_its_bucket(histogram: dict[int, int], share: float) -> None:
    """And that many are at or below the bucket."""
    bucket = quantile_bucket(histogram, share)
    value = quantile(histogram, share)
    assert bucket is not None
    assert value is not None
    assert 1.1 ** (bucket - 1) * 0.999 <= value <= 1.1**bucket * 1.001
    assert size(histogram) - above(histogram, bucket) >= share * size(histogram) - 1e-6


def test_a_quantile_of_many_is_close() -> None:
    """Counts within a bucket are spread: a p95 of evenly spread logarithms is met within a percent."""
    histogram = dict.fromkeys(range(1, 101), 10)
    assert quantile(histogram, 0.955) == pytest.approx(math.pow(1.1, 95.5), rel=0.01)


def test_nothing_has_no_quantile() -> None:
    """None, not zero."""
    assert quantile({}, 0.5) is None
    assert quantile_bucket({}, 0.5) is None
