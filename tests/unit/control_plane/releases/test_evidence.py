"""The bets: fair when the versions are alike, and quick when they are not."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.releases.evidence import ALONE_AT_FIRST, AT_FIRST, Wealth, alone, compared


def hypergeometric(total: int, bad: int, drawn: int) -> list[float]:
    """Return how likely each number of bad ones among the drawn is."""
    return [
        math.comb(bad, hit) * math.comb(total - bad, drawn - hit) / math.comb(total, drawn)
        for hit in range(min(bad, drawn) + 1)
    ]


@given(st.integers(1, 40), st.integers(1, 40), st.data())
@settings(max_examples=60)
def test_the_bet_is_fair_or_losing(old: int, new: int, data: st.DataObject) -> None:
    """Over every way in which the bad ones may fall, what is expected is what there was, at most."""
    bad = data.draw(st.integers(1, old + new))
    before = compared(AT_FIRST, (10, 1), (10, 2))
    expected = 0.0
    for hit, chance in enumerate(hypergeometric(old + new, bad, new)):
        if chance:
            expected += chance * math.exp(compared(before, (old, bad - hit), (new, hit)).log_evidence)
    assert expected <= math.exp(before.log_evidence) * (1 + 1e-9)


@given(st.integers(1, 40), st.sampled_from([0.01, 0.1, 0.3, 0.6]))
@settings(max_examples=30)
def test_alone_the_bet_is_fair_too(calls: int, allowed: float) -> None:
    """At the rate that is allowed."""
    expected = sum(
        math.comb(calls, bad)
        * allowed**bad
        * (1 - allowed) ** (calls - bad)
        * math.exp(alone(ALONE_AT_FIRST, allowed, calls, bad).log_evidence)
        for bad in range(calls + 1)
    )
    assert expected == pytest.approx(1, rel=1e-6)


def test_at_first_there_is_no_evidence() -> None:
    """The capital is one, laid or not."""
    assert math.exp(AT_FIRST.log_evidence) == pytest.approx(1)
    assert compared(AT_FIRST, (0, 0), (10, 10)) is AT_FIRST
    assert compared(AT_FIRST, (10, 0), (10, 0)) is AT_FIRST
    assert alone(ALONE_AT_FIRST, 0.2, 0, 0) is ALONE_AT_FIRST


def test_what_hits_both_alike_is_no_evidence() -> None:
    """An outage of the provider cancels out."""
    wealth = AT_FIRST
    for _ in range(50):
        wealth = compared(wealth, (95, 95), (5, 5))
    assert wealth.log_evidence < 0


def test_a_version_that_breaks_late_is_noticed_soon() -> None:
    """A thousand good intervals cost a few bad calls more, not a thousand bad intervals."""
    rng = random.Random(3)
    wealth = AT_FIRST
    for _ in range(1000):
        wealth = compared(wealth, (95, sum(rng.random() < 0.02 for _ in range(95))), (5, rng.random() < 0.1))
    calm = wealth.log_evidence
    bad = 0
    while wealth.log_evidence < math.log(50):
        wealth = compared(wealth, (95, 2), (5, 3))
        bad += 3
    assert calm < 3
    assert bad <= 21


def test_numbers_stay_finite() -> None:
    """However long, in either direction."""
    wealth = Wealth(tuple(-9e8 for _ in AT_FIRST.logs), 10**6)
    assert math.isfinite(compared(wealth, (10**9, 10**8), (10**9, 0)).log_evidence)
    assert math.isfinite(compared(wealth, (10**9, 0), (10**9, 10**8)).log_evidence)
