"""Which moves are told, why they were made, and in which form."""

from __future__ import annotations

import json

import pytest

from control_plane.releases.analysis import Outcome, Reading, Verdict
from control_plane.releases.counts import Both, Counts
from control_plane.releases.events import Basis, Cause, Event, body_of, body_text, cause_of, event_of
from control_plane.releases.machine import Action, Plan, Standing, acted, advanced, begun, settled

PLAN = Plan((5.0, 50.0), 60.0, max_wait_s=100.0)
PASS = Verdict(Outcome.PASS, "every gate holds after 200 requests")
WAIT = Verdict(Outcome.WAIT, "not enough traffic: 3 of 200 requests")
FAIL = Verdict(Outcome.FAIL, "latencyP95: 3 on the new version, 1 on the old one, limit 1.2")
FIRST = begun(PLAN, 1, 0.0)
ON_ITS_WAY = advanced(FIRST, PLAN, WAIT, 1.0)
PAUSED = acted(ON_ITS_WAY, PLAN, Action.PAUSE, "ann", 2.0)
SECOND = advanced(ON_ITS_WAY, PLAN, PASS, 61.0)
ALL = advanced(SECOND, PLAN, PASS, 130.0)
BACK = advanced(ON_ITS_WAY, PLAN, FAIL, 5.0)


@pytest.mark.parametrize(
    ("before", "after", "event", "cause"),
    [
        (None, FIRST, Event.STARTED, Cause.APPLIED),
        (ON_ITS_WAY, begun(PLAN, 2, 9.0), Event.STARTED, Cause.APPLIED),
        (ON_ITS_WAY, PAUSED, Event.PAUSED, Cause.PERSON),
        (ON_ITS_WAY, advanced(ON_ITS_WAY, PLAN, WAIT, 101.0), Event.PAUSED, Cause.WAITED),
        (PAUSED, acted(PAUSED, PLAN, Action.RESUME, "ann", 3.0), Event.RESUMED, Cause.PERSON),
        (PAUSED, acted(PAUSED, PLAN, Action.PROMOTE, "ann", 3.0), Event.STEP, Cause.PERSON),
        (FIRST, acted(FIRST, PLAN, Action.PROMOTE, "ann", 3.0), Event.STEP, Cause.PERSON),
        (ON_ITS_WAY, SECOND, Event.STEP, Cause.PASSED),
        (SECOND, ALL, Event.PROMOTED, Cause.PASSED),
        (ALL, settled(ALL, obeyed=True, at_s=131.0), Event.DONE, Cause.OBEYED),
        (ON_ITS_WAY, BACK, Event.ROLLING_BACK, Cause.LATENCY),
        (BACK, settled(BACK, obeyed=True, at_s=6.0), Event.ROLLED_BACK, Cause.OBEYED),
        (SECOND, acted(SECOND, PLAN, Action.ABORT, "ann", 70.0), Event.ABORTED, Cause.PERSON),
    ],
)
def test_each_move_that_concerns_callers_or_people_is_told(
    before: Standing | None, after: Standing, event: Event, cause: Cause
) -> None:
    """With the one word that says what moved it."""
    found = event_of(before, after)
    assert found is event
    assert cause_of(event, after) is cause


def test_that_callers_follow_is_not_told() -> None:
    """It was told that it started, and nothing changes for anybody."""
    assert event_of(FIRST, ON_ITS_WAY) is None
    assert event_of(ON_ITS_WAY, ON_ITS_WAY) is None


def test_a_query_is_told_as_one() -> None:
    """Whichever it is."""
    verdict = Verdict(Outcome.FAIL, "prometheus[3]: 0.5 is above 0.1")
    moved = advanced(ON_ITS_WAY, PLAN, verdict, 5.0)
    assert cause_of(Event.ROLLING_BACK, moved) is Cause.PROMETHEUS


def test_a_gate_of_its_own_name_is_some_other_gate() -> None:
    """The set of reasons stays closed."""
    verdict = Verdict(Outcome.FAIL, "something: 1")
    assert cause_of(Event.ROLLING_BACK, advanced(ON_ITS_WAY, PLAN, verdict, 5.0)) is Cause.OTHER_GATE


def test_what_is_sent_has_the_numbers_of_the_decision() -> None:
    """Type, time and data; the text is ASCII."""
    reading = Reading("latencyP95", Outcome.FAIL, 1.0, 3.0, 1.2, 90.0, 80.0)
    basis = Basis(
        Verdict(Outcome.FAIL, FAIL.reason, (reading,)), Both(Counts(9), Counts(5, 1, duration={10: 4}))
    )
    versions = {"model": "模型", "from": "a", "to": "b"}
    text = body_text(body_of(Event.ROLLING_BACK, "r", versions, BACK, basis))
    assert text.isascii()
    body = json.loads(text)
    assert (body["type"], body["timestamp"]) == ("release.rolling-back", "1970-01-01T00:00:05Z")
    data = body["data"]
    assert (data["release"], data["model"], data["from"], data["to"]) == ("r", "模型", "a", "b")
    assert (data["phase"], data["step"], data["share"], data["reason"]) == ("rolling-back", 1, 0, FAIL.reason)
    assert (data["old"]["requests"], data["new"]["requests"], data["new"]["errors"]) == (9, 5, 1)
    assert data["gates"] == [
        {
            "gate": "latencyP95",
            "outcome": "fail",
            "old": 1.0,
            "new": 3.0,
            "limit": 1.2,
            "evidence": 90.0,
            "needed": 80.0,
        }
    ]


def test_a_start_was_decided_on_nothing() -> None:
    """And says so."""
    body = body_of(Event.STARTED, "r", {}, FIRST, Basis())
    assert (body["data"]["gates"], body["data"]["new"]["requests"]) == ([], 0)
