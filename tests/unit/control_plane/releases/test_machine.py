"""The state machine: what moves a Release, and what does not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.releases.analysis import Outcome, Verdict
from control_plane.releases.machine import (
    ENDED,
    Action,
    ActionRefusedError,
    Phase,
    Plan,
    Standing,
    acted,
    advanced,
    begun,
    settled,
    waiting_for,
)

PLAN = Plan((5.0, 25.0, 100.0), 60.0)
PASS = Verdict(Outcome.PASS, "every gate holds")
WAIT = Verdict(Outcome.WAIT, "not enough traffic: 3 of 200 requests")
FAIL = Verdict(Outcome.FAIL, "errorRate: 0.5 on the new version")


def progressing(plan: Plan = PLAN) -> Standing:
    """Return a Release in its first step."""
    return advanced(begun(plan, 7, 0.0), plan, WAIT, 1.0)


def test_it_starts_at_its_first_step() -> None:
    """With the share of it, from the moment it is applied."""
    standing = begun(PLAN, 7, 0.0)
    assert (standing.phase, standing.step, standing.share, standing.begun) == (Phase.PENDING, 1, 5.0, 7)
    assert (progressing().phase, progressing().since_s) == (Phase.PROGRESSING, 0.0)


def test_a_step_takes_its_time_and_its_numbers() -> None:
    """Neither alone is enough."""
    assert advanced(progressing(), PLAN, PASS, 59.0) == progressing()
    assert advanced(progressing(), PLAN, WAIT, 1000.0) == progressing()
    second = advanced(progressing(), PLAN, PASS, 60.0)
    assert (second.phase, second.step, second.share, second.since_s) == (Phase.PROGRESSING, 2, 25.0, 60.0)


def test_after_the_last_step_it_is_done() -> None:
    """The share is 100, whatever the last step was."""
    plan = Plan((50.0,), 0.0)
    promoting = advanced(progressing(plan), plan, PASS, 2.0)
    assert (promoting.phase, promoting.share) == (Phase.PROMOTING, 100.0)
    assert settled(promoting, obeyed=False, at_s=3.0) is promoting
    assert settled(promoting, obeyed=True, at_s=3.0).phase is Phase.DONE
    assert settled(promoting, obeyed=False, at_s=12.0).phase is Phase.DONE


def test_a_failed_gate_takes_everybody_back() -> None:
    """At once; the reason names the gate to the end."""
    back = advanced(progressing(), PLAN, FAIL, 2.0)
    assert (back.phase, back.share) == (Phase.ROLLING_BACK, 0.0)
    gone = settled(back, obeyed=True, at_s=2.5)
    assert (gone.phase, gone.share, gone.reason) == (Phase.ROLLED_BACK, 0.0, FAIL.reason)


def test_a_pause_holds_the_clock() -> None:
    """What has baked stays baked, and nothing moves by itself."""
    paused = acted(progressing(), PLAN, Action.PAUSE, "ann", 40.0)
    assert (paused.phase, paused.share, paused.reason) == (Phase.PAUSED, 5.0, "paused by ann")
    assert advanced(paused, PLAN, FAIL, 1000.0) is paused
    resumed = acted(paused, PLAN, Action.RESUME, "ann", 1000.0)
    assert advanced(resumed, PLAN, PASS, 1019.0) is resumed
    assert advanced(resumed, PLAN, PASS, 1020.0).step == 2


def test_promote_is_one_step() -> None:
    """A paused Release stays paused; after the last step everybody is on the new version."""
    second = acted(progressing(), PLAN, Action.PROMOTE, "ann", 2.0)
    assert (second.phase, second.step, second.share) == (Phase.PROGRESSING, 2, 25.0)
    paused = acted(acted(second, PLAN, Action.PAUSE, "ann", 3.0), PLAN, Action.PROMOTE, "ann", 4.0)
    assert (paused.phase, paused.step, paused.share, paused.baked_s) == (Phase.PAUSED, 3, 100.0, 0.0)
    assert acted(paused, PLAN, Action.PROMOTE, "ann", 5.0).phase is Phase.PROMOTING


def test_abort_is_nobody() -> None:
    """From wherever it is, at once."""
    for standing in (begun(PLAN, 7, 0.0), progressing(), acted(progressing(), PLAN, Action.PAUSE, "a", 1.0)):
        aborted = acted(standing, PLAN, Action.ABORT, "ann", 2.0)
        assert (aborted.phase, aborted.share) == (Phase.ABORTED, 0.0)


def test_what_does_not_fit_is_refused() -> None:
    """An ended Release, a second pause, a resume without one."""
    paused = acted(progressing(), PLAN, Action.PAUSE, "ann", 1.0)
    with pytest.raises(ActionRefusedError, match="is paused already"):
        acted(paused, PLAN, Action.PAUSE, "ann", 2.0)
    with pytest.raises(ActionRefusedError, match="is not paused"):
        acted(progressing(), PLAN, Action.RESUME, "ann", 2.0)
    aborted = acted(progressing(), PLAN, Action.ABORT, "ann", 1.0)
    for action in Action:
        with pytest.raises(ActionRefusedError, match="is aborted"):
            acted(aborted, PLAN, action, "ann", 2.0)


def test_waiting_for_traffic_ends_in_a_pause() -> None:
    """With a maxWait; without one it waits."""
    plan = Plan((5.0,), 60.0, 300.0)
    standing = progressing(plan)
    assert advanced(standing, plan, WAIT, 299.0) is standing
    paused = advanced(standing, plan, WAIT, 300.0)
    assert (paused.phase, paused.reason) == (Phase.PAUSED, f"waited for longer than maxWait: {WAIT.reason}")


def test_a_step_says_what_it_waits_for() -> None:
    """The time that is left, or what is missing."""
    assert waiting_for(progressing(), PLAN, PASS, 20.0) == "baking, 40 s left: every gate holds"
    assert waiting_for(progressing(), PLAN, WAIT, 90.0) == WAIT.reason
    assert (
        waiting_for(acted(progressing(), PLAN, Action.ABORT, "ann", 1.0), PLAN, WAIT, 2.0) == "aborted by ann"
    )


EVENTS = st.one_of(st.sampled_from(list(Action)), st.sampled_from([PASS, WAIT, FAIL]), st.booleans())


@given(st.lists(st.tuples(EVENTS, st.floats(0, 100)), max_size=40))
@settings(max_examples=100)
def test_whatever_happens_it_stays_whole(events: list[tuple[Action | Verdict | bool, float]]) -> None:
    """An ended Release never moves; shares are a step's, 0 or 100; each move counts and is written down."""
    standing, now = begun(PLAN, 7, 0.0), 0.0
    for event, later in events:
        now += later
        before = standing
        try:
            if isinstance(event, Action):
                standing = acted(standing, PLAN, event, "ann", now)
            elif isinstance(event, Verdict):
                standing = advanced(standing, PLAN, event, now)
            else:
                standing = settled(standing, obeyed=event, at_s=now)
        except ActionRefusedError:
            assert standing is before
        if before.phase in ENDED:
            assert standing is before
        if standing is not before:
            assert standing.generation == before.generation + 1
            last = standing.decisions[-1]
            assert (last.phase, last.share, last.step) == (standing.phase, standing.share, standing.step)
            assert standing.step in (before.step, before.step + 1)
        expected = {
            Phase.DONE: 100.0,
            Phase.PROMOTING: 100.0,
            Phase.ABORTED: 0.0,
            Phase.ROLLING_BACK: 0.0,
            Phase.ROLLED_BACK: 0.0,
        }
        assert standing.share == expected.get(standing.phase, PLAN.steps[standing.step - 1])


def test_resumed_after_it_waited_too_long_it_waits_anew() -> None:
    """What had baked before that counts, so that it goes on as soon as its numbers allow."""
    plan = Plan((5.0, 50.0), 60.0, max_wait_s=90.0)
    paused = advanced(progressing(plan), plan, WAIT, 100.0)
    assert (paused.phase, paused.baked_s) == (Phase.PAUSED, 100.0)
    resumed = acted(paused, plan, Action.RESUME, "ann", 200.0)
    assert advanced(resumed, plan, WAIT, 289.0) is resumed
    assert advanced(resumed, plan, PASS, 201.0).step == 2
    assert advanced(resumed, plan, WAIT, 290.0).phase is Phase.PAUSED


SHADOWED = Plan((5.0, 100.0), 60.0, shadows=True)


def test_in_the_shadow_nobody_is_on_the_new_version() -> None:
    """It comes before the first step, bakes as a step does, and its gates hold it or take it back."""
    standing = begun(SHADOWED, 7, 0.0)
    assert (standing.phase, standing.step, standing.share) == (Phase.PENDING, 0, 0.0)
    shadowed = advanced(standing, SHADOWED, WAIT, 1.0)
    assert (shadowed.phase, shadowed.step, shadowed.share) == (Phase.PROGRESSING, 0, 0.0)
    assert waiting_for(shadowed, SHADOWED, WAIT, 2.0) == f"in the shadow: {WAIT.reason}"
    assert advanced(shadowed, SHADOWED, PASS, 59.0) is shadowed
    first = advanced(shadowed, SHADOWED, PASS, 60.0)
    assert (first.phase, first.step, first.share) == (Phase.PROGRESSING, 1, 5.0)
    failed = advanced(shadowed, SHADOWED, FAIL, 2.0)
    assert (failed.phase, failed.share, failed.reason) == (Phase.ROLLING_BACK, 0.0, FAIL.reason)


def test_people_lead_a_release_in_the_shadow_as_at_a_step() -> None:
    """Promoted it is at its first step; paused and resumed it is where it was; aborted it has ended."""
    shadowed = advanced(begun(SHADOWED, 7, 0.0), SHADOWED, WAIT, 1.0)
    promoted = acted(shadowed, SHADOWED, Action.PROMOTE, "ann", 2.0)
    assert (promoted.phase, promoted.step, promoted.share) == (Phase.PROGRESSING, 1, 5.0)
    resumed = acted(acted(shadowed, SHADOWED, Action.PAUSE, "ann", 2.0), SHADOWED, Action.RESUME, "ann", 3.0)
    assert (resumed.phase, resumed.step, resumed.share) == (Phase.PROGRESSING, 0, 0.0)
    assert acted(shadowed, SHADOWED, Action.ABORT, "ann", 2.0).phase is Phase.ABORTED
