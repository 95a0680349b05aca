"""What the numbers say: nothing without enough of them, and rarely what is not so."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from control_plane.releases.analysis import Analysis, Outcome, folded, judged
from control_plane.releases.counts import NOTHING, Both, Counts
from control_plane.releases.gates import gates_of
from control_plane.resources.kinds.release import Gates
from tests.unit.control_plane.releases.simulated import Behaviour, play

GATES = gates_of(Gates())
GOOD = Behaviour()
WITHIN_2000 = 2000


def calls(number: int, errors: int = 0, bucket: int = 70) -> Counts:
    """Return calls of which all but the errors took the same time."""
    return Counts(number, errors, duration={bucket: number - errors})


def after(*intervals: Both, share: float = 0.05) -> Analysis:
    """Return what is known after these intervals."""
    analysis = Analysis()
    for interval in intervals:
        analysis = folded(analysis, interval, GATES, share)
    return analysis


def test_too_little_traffic_is_no_pass() -> None:
    """It is said how much there was, of either version."""
    few = judged(after(Both(calls(100), calls(5))), GATES, 0.05, 200)
    assert (few.outcome, few.reason) == (Outcome.WAIT, "not enough traffic: 5 of 200 requests")
    lonely = judged(after(Both(NOTHING, calls(300)), share=0.5), GATES, 0.5, 200)
    assert lonely.outcome is Outcome.WAIT
    assert "to compare with: 0 of 100" in lonely.reason


def test_enough_of_the_same_passes() -> None:
    """Every gate is read, and holds; the reason has the figures that are known."""
    verdict = judged(after(*[Both(calls(95), calls(5))] * 50), GATES, 0.05, 200)
    assert verdict.outcome is Outcome.PASS
    assert [reading.outcome for reading in verdict.readings] == [Outcome.PASS] * 3
    assert verdict.reason == (
        "every gate holds after 250 requests: errorRate 0 (old 0), latencyP95 786 (old 786)"
    )


def test_at_a_share_of_100_the_old_one_is_remembered() -> None:
    """Nobody is on the old version any more, so its earlier steps are what there is to compare with."""
    earlier = after(*[Both(calls(95, 1), calls(5))] * 50).at_next_step()
    good = folded(earlier, Both(NOTHING, calls(300, 3)), GATES, 1.0)
    assert judged(good, GATES, 1.0, 200).outcome is Outcome.PASS
    bad = earlier
    for _ in range(4):
        bad = folded(bad, Both(NOTHING, calls(8, 4)), GATES, 1.0)
    verdict = judged(bad, GATES, 1.0, 200)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reason.startswith("errorRate: 0.5 on the new version, 0.01")


def test_an_outage_of_both_holds_the_step() -> None:
    """It is not the new version's fault, and no time to go on either."""
    verdict = judged(after(*[Both(calls(95, 95), calls(5, 5))] * 50), GATES, 0.05, 200)
    assert verdict.outcome is Outcome.WAIT
    assert "on the old version too" in verdict.reason


def test_beyond_the_limit_without_evidence_waits() -> None:
    """Neither passed nor rolled back."""
    mostly = [Both(calls(95, 1), calls(5))] * 7
    verdict = judged(after(*[*mostly, Both(calls(95, 1), calls(5, 1))] * 5), GATES, 0.05, 200)
    assert verdict.outcome is Outcome.WAIT
    assert "not yet certain" in verdict.reason


def test_a_few_errors_are_nobodys_fault() -> None:
    """One caller's four tries roll nothing back, whatever the evidence."""
    verdict = judged(after(*[Both(calls(95), calls(5, 1))] * 4), GATES, 0.05, 200)
    assert verdict.readings[0].evidence > verdict.readings[0].needed
    assert verdict.outcome is Outcome.WAIT


def test_a_version_that_refuses_goes_back() -> None:
    """A few refusals are nobody's fault; many are, of answers that otherwise succeed."""
    gates = gates_of(Gates.model_validate({"refusalRate": {"maxIncrease": 0.02}}))
    for refusals, outcome in ((4, Outcome.WAIT), (40, Outcome.FAIL)):
        new = replace(calls(80), filtered=refusals)
        analysis = folded(Analysis(), Both(replace(calls(720), filtered=2), new), gates, 0.1)
        verdict = judged(analysis, gates, 0.1, 20)
        assert verdict.outcome is outcome
        assert verdict.reason.startswith("refusalRate")


def test_few_callers_are_gathered_until_there_is_something_to_compare() -> None:
    """With one call a second no interval has both versions; their sum does."""
    both = [Both(calls(1), NOTHING), Both(NOTHING, calls(1, 1))]
    analysis = after(*both * 12, share=0.5)
    verdict = judged(analysis, GATES, 0.5, 200)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reason.startswith("errorRate")


@pytest.mark.parametrize("spread", [0.5, 1.0])
def test_releases_without_a_difference_are_rarely_rolled_back(spread: float) -> None:
    """Of 100 each, 5 at most; there are 200 in all."""
    rng = random.Random(int(spread * 10))
    same = Behaviour(spread=spread)
    failed = [play(same, same, rng).verdict.outcome is Outcome.FAIL for _ in range(100)]
    assert sum(failed) <= 5


@pytest.mark.parametrize(
    ("bad", "gate"),
    [
        (replace(GOOD, error_rate=0.03), "errorRate"),
        (replace(GOOD, median_ms=GOOD.median_ms * 1.3), "latencyP95"),
    ],
    ids=["errors 1 % to 3 %", "p95 +30 %"],
)
def test_a_worse_version_is_found(bad: Behaviour, gate: str) -> None:
    """Within 2,000 requests to it, 95 times of 100; here of 40."""
    rng = random.Random(11)
    played = [play(GOOD, bad, rng, at_most=WITHIN_2000, bake=WITHIN_2000) for _ in range(40)]
    found = [one for one in played if one.verdict.outcome is Outcome.FAIL]
    assert len(found) >= 38
    assert all(one.verdict.reason.startswith((gate, "ttftP95")) for one in found)


def test_a_disaster_is_over_in_30_requests() -> None:
    """Half of the answers are errors."""
    rng = random.Random(5)
    bad = replace(GOOD, error_rate=0.5)
    played = [play(GOOD, bad, rng, at_most=30) for _ in range(100)]
    assert sum(one.verdict.outcome is Outcome.FAIL for one in played) >= 98


def test_a_disaster_after_an_hour_is_found_too() -> None:
    """As soon as the numbers of that minute show it."""
    rng = random.Random(6)
    bad = replace(GOOD, error_rate=0.5)
    played = [play(GOOD, bad, rng, good_for=300, steps=(0.05,), bake=1 << 30) for _ in range(5)]
    assert all(one.verdict.outcome is Outcome.FAIL for one in played)
    assert max(one.new_requests for one in played) <= 300 * 5 * 1.2 + 60
