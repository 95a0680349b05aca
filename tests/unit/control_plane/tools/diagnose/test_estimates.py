"""Medians and shifts of few, skewed times."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.tools.diagnose.estimates import Estimate, middle, shift, student_t

TIMES = st.lists(st.floats(min_value=0, max_value=1e6, allow_nan=False), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("samples", "estimate"),
    [
        ([5.0], Estimate(5, 5, 5, 1)),
        ([1.0, 2.0, 3.0], Estimate(2, 1, 3, 3)),
        ([9.0, *map(float, range(1, 9)), 100.0], Estimate(5.5, 2, 9, 10)),
    ],
    ids=["one", "few: the whole range", "ten: all but the ends"],
)
def test_median(samples: list[float], estimate: Estimate) -> None:
    """The interval leaves out as many of each end as the sign test allows."""
    assert middle(samples) == estimate


def test_nothing_measured() -> None:
    """No samples, no estimate."""
    assert middle([]) is None
    assert shift([], [1.0]) is None
    assert shift([1.0], []) is None


def test_shift_ignores_an_outlier() -> None:
    """One slow call among eight moves neither the value nor the interval far."""
    fast = [10.0, 10.1, 10.2, 10.3, 10.4, 10.5, 10.6, 10.7]
    slow = [time + 5 for time in fast[:-1]] + [900.0]
    found = shift(slow, fast)
    assert found is not None
    assert found.value == pytest.approx(5, abs=0.2)
    assert 4 < found.low < found.high < 6
    assert found.n == 16


@settings(max_examples=40, deadline=None)
@given(slow=TIMES, fast=TIMES)
def test_shift_is_antisymmetric(slow: list[float], fast: list[float]) -> None:
    """What is slower by some milliseconds one way is faster by as many the other way."""
    one, other = shift(slow, fast), shift(fast, slow)
    assert one is not None
    assert other is not None
    assert (one.value, one.low, one.high) == pytest.approx((-other.value, -other.high, -other.low))
    assert one.low <= one.value <= one.high


def test_intervals_hold_what_they_promise() -> None:
    """Of a hundred shifts between skewed times, nearly all intervals hold the true one."""
    randomness = random.Random(7)
    held = 0
    for _ in range(100):
        fast = [10 + randomness.expovariate(1) for _ in range(8)]
        slow = [13 + randomness.expovariate(1) for _ in range(8)]
        found = shift(slow, fast)
        held += found is not None and found.low <= 3 <= found.high
    assert held >= 90


@pytest.mark.parametrize(
    ("degrees", "quantile"), [(1, 12.706), (2, 4.303), (3, 3.182), (5, 2.571), (30, 2.042)]
)
def test_students_t(degrees: int, quantile: float) -> None:
    """As in the tables."""
    assert student_t(degrees) == pytest.approx(quantile, rel=0.02)


def test_units_and_known_parts() -> None:
    """An estimate moves and scales with its interval."""
    assert Estimate(2, 1, 4, 3).times(1000) == Estimate(2000, 1000, 4000, 3)
    assert Estimate(2, 1, 4, 3).less(1) == Estimate(1, 0, 3, 3)
