"""Figures of a setting, and how sure they are."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.tools.tune.scoring import Prices, Sample
from control_plane.tools.tune.settings import Observation, Target
from tests.unit.control_plane.tools.tune.providers import observation


def test_throughput_is_places_over_the_time_an_answer_holds_one() -> None:
    """Two batches of ten at a time, half a second each, are forty a second."""
    figures = Sample([observation(0.5, 10)] * 8, places=20).figures()
    assert figures.throughput == pytest.approx(40)
    assert (figures.asked, figures.errors, figures.calls) == (80, 0, 8)
    assert figures.p50 == figures.p99 == pytest.approx(500, rel=0.01)


def test_errors_count_their_time_and_not_their_latency() -> None:
    """A refusal is quick, and no answer."""
    figures = Sample([observation(1.0), observation(0.001, good=0), observation(1.0, 2, good=1)], 1).figures()
    assert (figures.errors, figures.error_rate) == (2, 0.5)
    assert figures.p50 == pytest.approx(1000, rel=0.01)
    assert figures.throughput == pytest.approx(2 / 3.001)


def test_without_an_answer_every_score_is_infinite() -> None:
    """Whatever the target."""
    figures = Sample([observation(0.1, good=0)], 1).figures()
    assert {figures.score(target) for target in Target} == {math.inf}
    assert Sample([], 1).figures().error_rate == 0


def test_the_tail_does_not_grow_with_the_number_of_calls() -> None:
    """The slowest of four is not the 99th of a hundred; the tail of both is about the same."""
    chance = random.Random(3)
    many = [observation(chance.lognormvariate(0, 0.3)) for _ in range(2000)]
    true_ms = math.exp(2.326 * 0.3) * 1000
    assert Sample(many, 1).figures().tail == pytest.approx(true_ms, rel=0.1)
    few = [Sample(many[n : n + 12], 1).figures() for n in range(0, 1200, 12)]
    assert sum(one.tail for one in few) / len(few) == pytest.approx(true_ms, rel=0.15)
    assert sum(one.p99 for one in few) / len(few) < 0.85 * true_ms


def test_one_slow_call_of_many_is_in_the_tail() -> None:
    """What was seen counts when there was enough of it."""
    calls = [observation(0.1)] * 98 + [observation(5.0)] * 2
    assert Sample(calls, 1).figures().tail == pytest.approx(5000, rel=0.01)


@pytest.mark.parametrize(("prices", "cost"), [(Prices(), 15), (Prices(2.0, 10.0), 0.07)])
def test_cost_is_tokens_an_answer_or_money_a_thousand(prices: Prices, cost: float) -> None:
    """What failed is paid for, too."""
    calls = [Observation(1, 1, 1, 1, tokens=10, prompt_tokens=5), Observation(1, 1, 1, 0, tokens=5)]
    if prices == Prices():
        assert Sample(calls, 1, prices).figures().cost == pytest.approx(cost)
    else:
        assert Sample(calls[:1], 1, prices).figures().cost == pytest.approx(0.06)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0.01, 10), min_size=4, max_size=80))
def test_draws_surround_the_figure(seconds: list[float]) -> None:
    """Whatever was measured."""
    sample = Sample([observation(one) for one in seconds], 4)
    drawn = [one.throughput for one in sample.draws(random.Random(0), 60)]
    slack = 1e-9 + 0.5 * sample.figures().throughput
    assert min(drawn) - slack <= sample.figures().throughput <= max(drawn) + slack
    assert sample.blocks <= 60
