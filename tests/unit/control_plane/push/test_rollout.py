"""One revision on its way: the wave, the release, the halt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.push.rollout import JUDGED_S, WAVE_LIMIT_S, Candidate, Phase, Rollout, choose_wave

C = "content"


@pytest.mark.parametrize(
    ("sidecars", "wave"), [(0, 0), (1, 1), (2, 1), (100, 1), (101, 2), (900, 9), (2000, 10)]
)
def test_the_wave_is_a_few(sidecars: int, wave: int) -> None:
    """1 %, but at least one and at most ten, of each content."""
    candidates = [Candidate(f"s{index}", 0.0) for index in range(sidecars)]
    assert len(choose_wave({"a": candidates})) == wave
    others = [Candidate(f"t{index}", 0.0) for index in range(sidecars)]
    assert len(choose_wave({"a": candidates, "b": others})) == 2 * wave


def test_those_that_answered_lately_are_preferred() -> None:
    """One that has been silent for long may hang."""
    candidates = [Candidate("silent", 1.0), Candidate("lively", 9.0), Candidate("new", 0.0)]
    assert choose_wave({C: candidates}) == {"lively"}


def test_without_a_wave_all_are_reached_at_once() -> None:
    """Nobody is due anything, or nobody is there."""
    rollout = Rollout(1, (), 0.0)
    assert (rollout.phase, rollout.deadline_s, rollout.reaches("any")) == (Phase.ALL, None, True)


def test_the_wave_alone_is_reached_until_it_has_answered() -> None:
    """The last acceptance releases the revision, without waiting for the clock."""
    rollout = Rollout(1, {"a", "b"}, 0.0)
    assert (rollout.reaches("a"), rollout.reaches("z")) == (True, False)
    assert rollout.accepted("a", C, 0.1) is Phase.WAVE
    assert rollout.accepted("b", C, 0.1) is Phase.ALL
    assert rollout.reaches("z")


def test_the_wave_passes_over_those_that_do_not_answer() -> None:
    """After 300 ms all are given it."""
    rollout = Rollout(1, {"a", "b"}, 10.0)
    assert rollout.deadline_s == pytest.approx(10.0 + WAVE_LIMIT_S)
    assert rollout.tick(10.0 + WAVE_LIMIT_S - 0.01) is Phase.WAVE
    assert rollout.tick(10.0 + WAVE_LIMIT_S) is Phase.ALL


def test_nobody_waits_for_one_that_left() -> None:
    """Its connection broke."""
    rollout = Rollout(1, {"a"}, 0.0)
    assert rollout.gone("a", 0.01) is Phase.ALL


def test_one_refusal_in_the_wave_halts() -> None:
    """Also after acceptances; the reason stays, and nobody is reached any more."""
    rollout = Rollout(1, {"a", "b"}, 0.0)
    rollout.accepted("a", C, 0.1)
    assert rollout.refused("b", C, "bad cluster", 0.1) is Phase.HALTED
    assert rollout.refused("a", C, "me too", 0.2) is Phase.HALTED
    assert (rollout.reason, rollout.reaches("a"), rollout.deadline_s) == ("bad cluster", False, None)


def test_during_the_wave_a_refusal_by_any_other_halts_too() -> None:
    """It had the content from a revision before, and has only now said no."""
    rollout = Rollout(1, {"a"}, 0.0)
    assert rollout.refused("z", C, "no", 0.1) is Phase.HALTED


def test_later_a_minority_of_refusals_halts_nothing() -> None:
    """Per content: more must refuse it than accept it."""
    rollout = Rollout(1, {"a"}, 0.0)
    rollout.accepted("a", C, 0.0)
    assert rollout.refused("b", C, "no", 0.1) is Phase.ALL
    rollout.accepted("x", "other", 0.1)
    rollout.accepted("y", "other", 0.1)
    assert rollout.refused("c", C, "no", 0.1) is Phase.HALTED


def test_one_that_comes_late_halts_nothing_that_is_served() -> None:
    """After the time of judgement only a content that nobody serves is halted."""
    rollout = Rollout(1, {"a"}, 0.0)
    rollout.accepted("a", C, 0.0)
    for name in "bcd":
        assert rollout.refused(name, C, "no", JUDGED_S) is Phase.ALL
    assert rollout.refused("e", "other", "no", JUDGED_S) is Phase.HALTED


def test_the_first_and_only_sidecar_halts_what_it_refuses_however_late() -> None:
    """It was not there when the revision was published."""
    rollout = Rollout(1, (), 0.0)
    assert rollout.refused("only", C, "no", 1000.0) is Phase.HALTED


def test_it_is_settled_when_somebody_serves_each_content() -> None:
    """Or when the time of judgement is over; never before it is out, never once halted."""
    rollout = Rollout(1, {"a"}, 0.0, ["one", "two"])
    assert not rollout.is_settled(JUDGED_S * 2)
    rollout.accepted("a", "one", 0.1)
    assert (rollout.is_settled(0.2), rollout.is_settled(0.1 + JUDGED_S)) == (False, True)
    rollout.accepted("b", "two", 0.2)
    assert rollout.is_settled(0.2)
    rollout.halt("no")
    rollout.halt("again")
    assert rollout.reason == "no"
    assert not rollout.is_settled(0.2)


events = st.lists(
    st.tuples(
        st.sampled_from(["accepted", "refused", "gone", "tick"]),
        st.sampled_from("abcdef"),
        st.floats(0, 1),
    ),
    max_size=30,
)


@given(st.sets(st.sampled_from("abcdef"), max_size=3), events)
def test_whatever_happens_a_revision_only_moves_forward(
    wave: set[str], happened: list[tuple[str, str, float]]
) -> None:
    """Wave, all, halted, in this order; halted for ever, with a reason; in the wave nobody else has it."""
    order = [Phase.WAVE, Phase.ALL, Phase.HALTED]
    rollout, now_s = Rollout(1, wave, 0.0), 0.0
    phase = rollout.phase
    refused_in_wave = False
    for kind, sidecar, passes_s in happened:
        now_s += passes_s
        if kind == "accepted":
            rollout.accepted(sidecar, C, now_s)
        elif kind == "refused":
            refused_in_wave |= phase is Phase.WAVE
            rollout.refused(sidecar, C, "no", now_s)
        elif kind == "gone":
            rollout.gone(sidecar, now_s)
        else:
            rollout.tick(now_s)
        assert order.index(rollout.phase) >= order.index(phase)
        phase = rollout.phase
        if phase is Phase.WAVE:
            assert {name for name in "abcdef" if rollout.reaches(name)} == wave
            assert now_s < WAVE_LIMIT_S
        assert (phase is Phase.HALTED) == bool(rollout.reason)
    assert not refused_in_wave or phase is Phase.HALTED
