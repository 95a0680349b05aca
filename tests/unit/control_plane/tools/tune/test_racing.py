"""Races against providers that are a formula."""

from __future__ import annotations

import random

import pytest

from control_plane.tools.tune.choosing import Demand
from control_plane.tools.tune.racing import Budget, Race, callers_within, places
from control_plane.tools.tune.scoring import Prices
from control_plane.tools.tune.settings import Ending, Observation, Setting, Target, settings
from tests.unit.control_plane.tools.tune.providers import Formula, observation, run

SIZES = settings((1, 5, 10, 20, 50), ())
FOR_EACH = 2000  # what an exhaustive search asks of each setting


def race(
    budget: Budget,
    candidates: tuple[Setting, ...] = SIZES,
    target: Target = Target.THROUGHPUT,
    chance: random.Random | None = None,
) -> Race:
    """Return a race that has not begun."""
    callers = callers_within(64, candidates, budget)
    return Race(candidates, Demand(target), budget, callers, chance or random.Random(1), Prices())


@pytest.mark.parametrize("target", list(Target))
@pytest.mark.parametrize("number", range(6))
def test_it_lands_near_the_optimum_with_a_quarter_of_the_requests(number: int, target: Target) -> None:
    """Within a tenth of the true best, whatever the provider's curve is like, with its spread."""
    chance = random.Random(f"{number} {target}")
    provider = Formula(
        base=chance.uniform(20, 300),
        each=chance.uniform(0.5, 20),
        square=chance.choice([0, 0.02, 0.1, 0.5]),
        slots=chance.choice([1, 2, 4, 8, 16, 64]),
        spread=chance.uniform(0.05, 0.25),
    )
    made = race(Budget(FOR_EACH * len(SIZES) // 4), target=target, chance=chance)
    run(made, provider)
    best = made.ranking().best
    assert best is not None
    least = min(provider.score(one, made.callers, target) for one in SIZES)
    assert provider.score(best, made.callers, target) <= 1.1 * least
    assert made.budget.asked <= FOR_EACH * len(SIZES) / 4


def test_windows_are_raced_as_well() -> None:
    """The short window wins when waiting brings nothing."""
    candidates = settings((5, 20, 50), (50, 400))
    made = race(Budget(FOR_EACH * len(candidates) // 4), candidates, Target.P99)
    run(made, Formula(spread=0.1))
    best = made.ranking().best
    assert best is not None
    assert best.window_ms == 50


def test_what_is_clearly_worse_gets_no_more_questions() -> None:
    """The race ends before the budget when the choice is sure."""
    made = race(Budget(20_000))
    trials = run(made, Formula(square=0.5, slots=64, spread=0.1))
    asked = {
        setting.size: sum(one.questions for one in trials if one.setting == setting) for setting in SIZES
    }
    best = made.ranking().best
    assert best is not None
    assert made.ending is Ending.SETTLED
    assert sum(asked.values()) < 5_000
    assert made.dropped
    assert best not in made.dropped


@pytest.mark.parametrize("requests", [2, 7, 60, 100, 500, 3000])
def test_the_budget_of_requests_is_never_passed(requests: int) -> None:
    """However small; sizes are tried from the smallest on."""
    made = race(Budget(requests))
    trials = run(made, Formula(spread=0.4))
    assert made.budget.asked <= requests
    assert [one.setting for one in trials[: len(SIZES)]] == list(SIZES[: len(trials)])
    if requests < 500:
        assert made.ending is Ending.REQUESTS


def test_the_budget_of_tokens_is_kept() -> None:
    """By what questions have cost so far."""
    made = race(Budget(100_000, max_tokens=20_000))
    made.tell(SIZES[0], [observation(0.1, tokens=60)])
    run(made, Formula(spread=0.4))
    assert made.budget.tokens <= 20_000
    assert made.ending in (Ending.TOKENS, Ending.SETTLED)


def test_a_target_that_answers_nothing_is_left_alone() -> None:
    """After one round."""
    made = race(Budget(100_000))
    asked = 0
    while (trial := made.following()) is not None:
        calls = max(1, trial.questions // trial.setting.size)
        seen = [Observation(0.1, 0.1, trial.setting.size, 0) for _ in range(calls)]
        asked += sum(one.asked for one in seen)
        made.tell(trial.setting, seen)
    assert (made.ending, made.ranking().best) == (Ending.FAILED, None)
    assert asked < 1000


def test_a_single_setting_is_measured_once() -> None:
    """There is nothing to choose."""
    made = race(Budget(10_000), (Setting(20),))
    assert len(run(made, Formula())) == 1
    assert made.ranking().best == Setting(20)
    assert len(made.observations(Setting(20))) >= 4


@pytest.mark.parametrize(
    ("size", "callers", "found"), [(1, 64, 64), (10, 64, 60), (50, 64, 50), (100, 64, 100)]
)
def test_places_are_whole_batches(size: int, callers: int, found: int) -> None:
    """One at least."""
    assert places(size, callers) == found


def test_a_small_budget_has_few_callers() -> None:
    """So that it is enough for two rounds."""
    assert callers_within(64, SIZES, Budget(10_000)) == 64
    assert callers_within(64, SIZES, Budget(100)) == 10
    assert callers_within(64, SIZES, Budget(2)) == 1
