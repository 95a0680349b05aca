"""Gates that are queries: what counts as beyond, and that the unknown is no pass."""

from __future__ import annotations

import pytest

from control_plane.releases.analysis import Outcome, Verdict
from control_plane.releases.queries import IN_A_ROW, NOT_ASKED, Answer, counted, is_beyond, with_queries
from control_plane.resources.kinds.release import PrometheusGate

AT_MOST = PrometheusGate(query="q", max=0.1)
AT_LEAST = PrometheusGate(query="q", min=0.9)
PASS = Verdict(Outcome.PASS, "every gate holds")
WAIT = Verdict(Outcome.WAIT, "not enough traffic: 3 of 200 requests")
FAIL = Verdict(Outcome.FAIL, "errorRate: 0.5 on the new version")


@pytest.mark.parametrize(
    ("gate", "value", "beyond"),
    [(AT_MOST, 0.1, False), (AT_MOST, 0.2, True), (AT_LEAST, 0.9, False), (AT_LEAST, 0.8, True)],
)
def test_a_limit_itself_is_allowed(gate: PrometheusGate, value: float, beyond: bool) -> None:
    """At most, or at least."""
    assert is_beyond(gate, value) is beyond


def test_several_in_a_row_count() -> None:
    """A good answer begins anew; one that is unknown changes nothing."""
    known = NOT_ASKED
    for value, in_a_row in ((0.2, 1), (None, 1), (0.3, 2), (0.1, 0), (0.2, 1)):
        known = counted(AT_MOST, known, Answer(value))
        assert known.in_a_row == in_a_row


@pytest.mark.parametrize(
    ("base", "answer", "outcome", "reason"),
    [
        (PASS, Answer(0.05), Outcome.PASS, "every gate holds"),
        (PASS, Answer(0.25, in_a_row=1), Outcome.WAIT, "prometheus[0]: 0.25 is above 0.1"),
        (PASS, Answer(None, "down"), Outcome.WAIT, "prometheus[0]: unknown: down"),
        (PASS, Answer(None, "down", IN_A_ROW), Outcome.WAIT, "prometheus[0]: unknown: down"),
        (WAIT, Answer(0.25, in_a_row=1), Outcome.WAIT, WAIT.reason),
        (WAIT, Answer(0.25, in_a_row=IN_A_ROW), Outcome.FAIL, "prometheus[0]: 0.25 is above 0.1"),
        (FAIL, Answer(0.05), Outcome.FAIL, FAIL.reason),
    ],
)
def test_a_query_may_hold_a_step_back_or_roll_it_back(
    base: Verdict, answer: Answer, outcome: Outcome, reason: str
) -> None:
    """Traffic that is missing stands in no failure's way; a failure of another gate is told first."""
    verdict = with_queries(base, [AT_MOST], [answer])
    assert (verdict.outcome, verdict.reason) == (outcome, reason)
    (reading,) = verdict.readings
    assert (reading.gate, reading.new, reading.limit) == ("prometheus[0]", answer.value, 0.1)


def test_what_was_not_asked_is_unknown() -> None:
    """A replica that has just begun passes nothing."""
    verdict = with_queries(PASS, [AT_MOST, AT_LEAST], [Answer(0.0)])
    assert (verdict.outcome, verdict.reason) == (Outcome.WAIT, "prometheus[1]: unknown: not asked yet")


def test_below_a_minimum_is_said_so() -> None:
    """In words that fit it."""
    verdict = with_queries(PASS, [AT_LEAST], [Answer(0.5, in_a_row=IN_A_ROW)])
    assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, "prometheus[0]: 0.5 is below 0.9")


def test_without_queries_nothing_changes() -> None:
    """Nor is anything added."""
    assert with_queries(WAIT, [], []) == WAIT
