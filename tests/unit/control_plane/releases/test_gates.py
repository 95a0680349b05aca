"""Gates: which calls are bad, what is compared, when it is too much."""

from __future__ import annotations

import pytest

from control_plane.releases.counts import NEITHER, NOTHING, Both, Counts
from control_plane.releases.gates import ErrorRate, Mean, Quantile, RefusalRate, gates_of
from control_plane.resources.kinds.model import Prices
from control_plane.resources.kinds.release import Gates, MaxRatio

LATENCY = Quantile("latencyP95", 1.2, lambda counts: counts.duration)


def times(**buckets: int) -> Counts:
    """Return calls that took so long, by bucket (`b40=10`)."""
    duration = {int(name[1:]): count for name, count in buckets.items()}
    return Counts(sum(duration.values()), duration=duration)


def test_the_default_gates() -> None:
    """What is not asked for is not judged."""
    assert [gate.name for gate in gates_of(Gates())] == ["errorRate", "latencyP95", "ttftP95"]
    asked = Gates.model_validate({"cost": {}, "outputLength": {}, "refusalRate": {}})
    assert [gate.name for gate in gates_of(asked)][3:] == ["cost", "outputLength", "refusalRate"]


def test_errors_are_bad() -> None:
    """And compared by their difference."""
    gate = ErrorRate(0.01)
    interval = Both(Counts(95, 1), Counts(5, 2))
    assert gate.bad(interval, NEITHER) == ((95, 1), (5, 2))
    assert gate.figure(Counts(200, 4)) == 0.02
    assert gate.figure(NOTHING) is None
    assert gate.is_beyond(0.01, 0.03)
    assert not gate.is_beyond(0.01, 0.019)
    assert gate.figure(Counts(200, 4), 2.0) == pytest.approx(0.0078, abs=0.0005)


def test_refusals_are_bad() -> None:
    """And compared by their difference, as errors are."""
    gate = RefusalRate(0.01)
    interval = Both(Counts(95, 9, filtered=1), Counts(5, 9, filtered=2))
    assert gate.bad(interval, NEITHER) == ((95, 1), (5, 2))
    assert gate.figure(Counts(200, filtered=4)) == 0.02
    assert gate.figure(NOTHING) is None
    assert (gate.is_beyond(0.01, 0.03), gate.is_beyond(0.01, 0.019)) == (True, False)


def test_what_is_slower_than_the_old_one_was_is_bad() -> None:
    """Than its p95 of before the interval; calls in the bucket of the p95 are not."""
    known = Both(times(b40=95, b50=5), NOTHING)
    interval = Both(times(b40=10, b60=1), times(b40=2, b41=3, b60=2))
    assert LATENCY.bad(interval, known) == ((11, 1), (7, 5))


def test_with_nothing_known_both_are_one_measure() -> None:
    """The interval may be looked at only without saying whose call is whose."""
    interval = Both(times(b40=19), times(b60=1))
    assert LATENCY.bad(interval, NEITHER) == ((19, 0), (1, 1))
    assert LATENCY.bad(NEITHER, NEITHER) == ((0, 0), (0, 0))


def test_a_percentile_needs_enough() -> None:
    """50 calls, then it is compared by ratio."""
    assert LATENCY.figure(times(b40=49)) is None
    assert LATENCY.figure(times(b40=50)) == pytest.approx(1.1**39.95)
    lower = LATENCY.figure(times(b40=90, b60=10), 3.0)
    assert lower == pytest.approx(1.1**39.95, rel=0.02)
    assert LATENCY.is_beyond(100, 121)
    assert not LATENCY.is_beyond(100, 119)


@pytest.mark.parametrize(
    ("prices", "cost"),
    [
        (None, 300.0),
        (Prices.model_validate({"inputPerMillion": 1.0, "outputPerMillion": 4.0}), 900.0),
        (Prices(), 0.0),
    ],
)
def test_cost_is_tokens_by_price(prices: Prices | None, cost: float) -> None:
    """Without prices a token is a token; by call that succeeded."""
    gate = gates_of(Gates(cost=MaxRatio()), prices)[3]
    counts = Counts(110, 10, 10_000, 20_000, output={56: 100})
    assert gate.figure(counts) == pytest.approx(cost)
    assert gate.figure(Counts(10, output={56: 10})) is None
    assert gate.bad(Both(counts, Counts(output={57: 3})), NEITHER) == ((100, 0), (3, 3))


def test_answers_that_grow_are_compared_by_ratio() -> None:
    """The mean of what succeeded."""
    gate = Mean("outputLength", 1.5, lambda counts: counts.output_tokens)
    assert gate.is_beyond(100, 151)
    assert not gate.is_beyond(100, 150)
    assert gate.figure(Counts(output_tokens=10_000, output={50: 100}), 2.0) == pytest.approx(80)
