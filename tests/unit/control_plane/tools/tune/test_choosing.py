"""Which setting is best, and how sure that is."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from control_plane.tools.tune.choosing import Demand, Ranking, finite, rank
from control_plane.tools.tune.scoring import Sample
from control_plane.tools.tune.settings import Observation, Setting, Target
from tests.unit.control_plane.tools.tune.providers import observation

SMALL, MIDDLE, LARGE = Setting(1), Setting(10), Setting(50)


def ranked(demand: Demand, dropped: frozenset[Setting] = frozenset(), **calls: Any) -> Ranking:
    """Rank settings by the calls that were made with them, twenty places each."""
    named = {"small": SMALL, "middle": MIDDLE, "large": LARGE}
    samples = {named[name]: Sample(made, 20) for name, made in calls.items()}
    return rank(samples, demand, random.Random(0), dropped)


def spread(seconds: float, asked: int = 1, count: int = 20, good: int | None = None) -> list[Observation]:
    """Return calls that take about so long."""
    return [observation(seconds * (0.9 + 0.01 * n), asked, good) for n in range(count)]


def test_the_best_is_sure_when_it_is_far_ahead() -> None:
    """The others are clearly worse."""
    ranking = ranked(Demand(), small=spread(1.0), middle=spread(2.0, 10), large=spread(40.0, 50))
    assert ranking.best in {SMALL, MIDDLE}
    ranking = ranked(Demand(), small=spread(1.0), large=spread(3.0))
    assert (ranking.best, ranking.worse, ranking.settled) == (SMALL, frozenset({LARGE}), True)
    assert ranking.confidence == 1.0
    low, high = ranking.standings[SMALL].low, ranking.standings[SMALL].high
    assert low.throughput < ranking.standings[SMALL].figures.throughput < high.throughput


def test_of_equals_neither_is_worse_and_the_quicker_wins() -> None:
    """Throughput ties are decided by the tail."""
    ranking = ranked(Demand(), small=spread(1.0), middle=[observation(1.0)] * 20)
    assert (ranking.best, ranking.worse) == (MIDDLE, frozenset())
    assert ranking.settled


def test_a_tie_in_cost_is_decided_by_throughput() -> None:
    """Tokens are the same whatever the size."""
    calls: dict[str, Any] = {
        "small": [Observation(1, 1, 1, 1, 40)] * 8,
        "large": [Observation(2, 20, 10, 10, 400)] * 8,
        "middle": [Observation(0.5, 0.5, 1, 1, 40)] * 8,
    }
    assert ranked(Demand(Target.COST), **calls).best == MIDDLE


def test_few_calls_are_no_proof() -> None:
    """Nothing is dropped by them, and nothing is sure."""
    ranking = ranked(Demand(), small=spread(1.0, count=2), large=spread(9.0, count=2))
    assert (ranking.best, ranking.worse, ranking.confidence) == (SMALL, frozenset(), 0.0)


def test_what_fails_more_often_is_no_choice() -> None:
    """However quick it is; a failure that may be chance does not count."""
    failing = [observation(0.1, 1, n % 2) for n in range(40)]
    ranking = ranked(Demand(Target.P99), small=failing, large=spread(1.0))
    assert (ranking.best, ranking.worse) == (LARGE, frozenset({SMALL}))
    unlucky = [*spread(0.1, 10, 5), observation(0.1, 10, 0)]
    assert ranked(Demand(Target.P99), small=unlucky, large=spread(1.0)).best == SMALL


def test_what_is_too_slow_is_no_choice() -> None:
    """Unless all are: then the best of them is told, and that it does not fit."""
    calls: dict[str, Any] = {"small": spread(1.0), "middle": spread(2.0, 10), "large": spread(4.0, 50)}
    ranking = ranked(Demand(Target.COST, max_p99_ms=3000), **calls)
    assert LARGE in ranking.worse
    assert not ranking.standings[LARGE].fit
    assert ranked(Demand(max_p99_ms=10), **calls).best is not None


def test_without_an_answer_there_is_no_best() -> None:
    """Nor any certainty."""
    ranking = ranked(Demand(), small=spread(1.0, good=0), large=spread(1.0, good=0))
    assert (ranking.best, ranking.confidence, ranking.worse) == (None, 0.0, frozenset())


def test_what_was_dropped_does_not_come_back() -> None:
    """Even when the others turn out slower."""
    ranking = ranked(Demand(), frozenset({SMALL}), small=spread(1.0), large=spread(3.0))
    assert ranking.best == LARGE


@pytest.mark.parametrize(("value", "kept"), [(1.5, 1.5), (math.inf, None), (math.nan, None)])
def test_json_has_no_infinity(value: float, kept: float | None) -> None:
    """It is null."""
    assert finite(value) == kept
