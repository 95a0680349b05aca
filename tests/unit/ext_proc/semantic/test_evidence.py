"""The bound holds: by the arithmetic of the test, and in simulated worlds."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ext_proc.semantic.evidence import (
    DOUBT,
    LEVELS,
    REMEMBERED,
    STILL_EXPLORED,
    Record,
    Tally,
    evidence,
    is_blameless,
    may_serve,
)


def tally(*outcomes: tuple[float, int, int]) -> Tally:
    """Return a tally of (similarity, right ones, wrong ones)."""
    made = Tally()
    for similarity, right, wrong in outcomes:
        for _ in range(right):
            made.add(similarity, agreed=True)
        for _ in range(wrong):
            made.add(similarity, agreed=False)
    return made


def test_nothing_known_is_explored() -> None:
    """However alike the questions are, and however lenient the bound."""
    assert not may_serve(1.0, Tally(), None, 0.5)
    assert not may_serve(1.0, Tally(), Record(), 0.01)


@pytest.mark.parametrize(("bound", "enough"), [(0.01, 500), (0.05, 100), (0.2, 25)])
def test_enough_right_ones_are_served(bound: float, enough: int) -> None:
    """About 4.6 / bound of them; half as many are not enough."""
    assert tally((0.985, enough, 0)).threshold(bound) is not None
    assert tally((0.985, enough // 2, 0)).threshold(bound) is None


def test_the_threshold_is_where_the_wrong_ones_begin() -> None:
    """What is less alike is explored still."""
    known = tally((0.985, 300, 0), (0.965, 300, 0), (0.91, 20, 40))
    threshold = known.threshold(0.05)
    assert threshold is not None
    assert 0.93 <= threshold <= 0.96
    assert may_serve(0.97, known, None, 0.05)
    assert not may_serve(0.91, known, None, 0.05)


def test_wrong_ones_take_it_back() -> None:
    """A world that has changed is noticed by what is still explored."""
    known = tally((0.985, 200, 0))
    assert may_serve(0.99, known, None, 0.05)
    for _ in range(8):
        known.add(0.99, agreed=False)
    assert not may_serve(0.99, known, None, 0.05)


def test_a_mistake_is_the_entrys_own_matter() -> None:
    """It is served above its worst mistake only; others are not touched."""
    known, record = tally((0.985, 300, 0)), Record()
    record.add(0.983, agreed=False)
    assert not may_serve(0.982, known, record, 0.05)
    assert may_serve(0.99, known, record, 0.05)
    assert may_serve(0.982, known, None, 0.05)
    assert not is_blameless(0.983, record)


def test_an_entry_frees_itself() -> None:
    """By outcomes of its own, far more of them than a partition needs."""
    record = Record()
    for _ in range(100):
        record.add(0.92, agreed=True)
    assert not may_serve(0.92, Tally(), record, 0.05)
    for _ in range(150):
        record.add(0.92, agreed=True)
    assert may_serve(0.92, Tally(), record, 0.05)


@settings(max_examples=60)
@given(st.integers(0, 3000), st.integers(0, 60), st.floats(0.001, 0.5))
def test_evidence_grows_with_right_ones_only(right: int, wrong: int, bound: float) -> None:
    """One more wrong one never helps, one more right one never hurts."""
    now = evidence(right, wrong, bound)
    assert evidence(right + 1, wrong, bound) >= now
    assert evidence(right, wrong + 1, bound) <= now


@pytest.mark.parametrize("bound", [0.0, 1.0, -1.0, 7.0])
def test_a_bound_that_is_none_lets_nothing_through(bound: float) -> None:
    """The control plane refuses it; a snapshot of another version may have it all the same."""
    assert tally((0.99, 3000, 0)).threshold(bound) is None


def test_a_true_null_is_rarely_rejected_however_often_one_looks() -> None:
    """With an error just at the bound, at most `DOUBT` of the worlds is ever served (5 % and its spread)."""
    draw, bound, worlds = random.Random(7), 0.05, 300
    fooled = 0
    for _ in range(worlds):
        right = wrong = 0
        for _ in range(400):
            if draw.random() < bound:
                wrong += 1
            else:
                right += 1
            if evidence(right, wrong, bound) >= 1 / DOUBT:
                fooled += 1
                break
    assert fooled / worlds <= DOUBT + 3 * (DOUBT * (1 - DOUBT) / worlds) ** 0.5


@pytest.mark.parametrize(
    ("bound", "steepness", "middle"),
    [(0.05, 60, 0.93), (0.05, 45, 0.9), (0.1, 50, 0.92), (0.02, 100, 0.94)],
)
def test_the_realised_error_keeps_the_bound(bound: float, steepness: float, middle: float) -> None:
    """Worlds with entries of their own quality, whose pairs are right by a logistic of their similarity."""
    served = wrong = 0
    for number in range(6):
        one_served, one_wrong = _world(random.Random(number), bound, steepness, middle)
        served += one_served
        wrong += one_wrong
    assert served > 0
    spread = 3 * (bound * (1 - bound) / served) ** 0.5
    assert wrong / served <= bound + spread


def _world(draw: random.Random, bound: float, steepness: float, middle: float) -> tuple[int, int]:
    """Return how many are served and how many of these wrong, of 4000 candidates of 200 entries."""
    known = Tally()
    records: dict[int, Record] = {}
    middles = [draw.gauss(middle, 0.01) for _ in range(200)]
    served = wrong = 0
    for _ in range(4000):
        entry = min(int(draw.expovariate(1 / 40)), 199)
        similarity = 1 - draw.expovariate(1 / 0.03)
        odds = min(max(steepness * (similarity - middles[entry]), -30), 30)
        right = draw.random() < 1 / (1 + 2.718281828**-odds)
        record = records.get(entry)
        if draw.random() >= STILL_EXPLORED and may_serve(similarity, known, record, bound):
            served += 1
            wrong += not right
            continue
        if is_blameless(similarity, record):
            known.add(similarity, agreed=right)
        records.setdefault(entry, Record()).add(similarity, agreed=right)
    return served, wrong


def test_the_past_is_forgotten_by_halves() -> None:
    """Right and wrong alike, so that nothing looks better for it."""
    known = Tally()
    for number in range(REMEMBERED + 1):
        known.add(0.985, agreed=number % 100 > 0)
    assert (sum(known.right), sum(known.wrong)) == (9_900, 101)


def test_levels_fall() -> None:
    """Each is a wider door than the one before."""
    assert list(LEVELS) == sorted(LEVELS, reverse=True)
