"""When a Backend is left alone, and how it is asked again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.contract.policies import RetryPolicy
from ext_proc.openai.ratelimits import RateLimitHint
from ext_proc.providers.cooling import (
    FORGOTTEN_S,
    LONGEST_S,
    PROBE_WITHIN_S,
    RAMP_S,
    RAMPS,
    Cooling,
    back_off_s,
)
from ext_proc.providers.hints import NO_HINT, Hint

RETRY = RetryPolicy()
SILENT = Hint(cools=True, wait_s=None, quota=RateLimitHint())


def told(wait_s: float) -> Hint:
    """Return the hint of a provider that names a time."""
    return Hint(cools=True, wait_s=wait_s, quota=RateLimitHint())


def cooled(hint: Hint, status: int = 429) -> Cooling:
    """Return what knows of a Backend that answered so at the time 0."""
    cooling = Cooling(lambda: 0.0)
    cooling.observe("b", status, hint, RETRY, 0.0)
    return cooling


def test_until_the_time_that_it_names() -> None:
    """And another Backend is none the worse."""
    cooling = cooled(told(7.0))
    assert cooling.wait_s("b", 1.0) == pytest.approx(6.0)
    assert cooling.ready_in_s("b", 1.0) == pytest.approx(6.0)
    assert cooling.wait_s("other", 1.0) == 0.0
    assert cooling.ready_in_s("other", 1.0) == 0.0
    assert cooling.ready_in_s("b", 7.0) == 0.0
    assert cooling.wait_s("b", 7.0) == 0.0


def test_a_longer_time_counts_and_a_shorter_one_does_not() -> None:
    """Answers to calls that were under way come in any order."""
    cooling = cooled(told(2.0))
    assert cooling.observe("b", 429, told(9.0), RETRY, 1.0) == 9.0
    assert cooling.observe("b", 429, told(1.0), RETRY, 1.0) == 0.0
    assert cooling.observe("b", 200, NO_HINT, RETRY, 1.0) == 0.0
    assert cooling.observe("b", 503, SILENT, RETRY, 1.0) == 0.0
    assert cooling.ready_in_s("b", 1.0) == pytest.approx(9.0)


def test_an_absurd_time_is_looked_at_again() -> None:
    """A year is an hour."""
    assert cooled(told(3e7)).ready_in_s("b", 0.0) == LONGEST_S


def test_without_a_time_each_refusal_in_a_row_may_last_longer() -> None:
    """Refusals that come together are one; an answer begins anew."""
    cooling = Cooling(lambda: 1.0)
    assert cooling.observe("b", 503, SILENT, RETRY, 0.0) == pytest.approx(2.0)
    assert cooling.observe("b", 503, SILENT, RETRY, 0.1) == 0.0
    assert cooling.observe("b", 503, SILENT, RETRY, 3.0) == pytest.approx(PROBE_WITHIN_S)
    cooling.observe("b", 500, NO_HINT, RETRY, 7.0)
    assert "b" in cooling
    cooling.observe("b", 200, NO_HINT, RETRY, 7.0)
    assert "b" not in cooling
    assert cooling.observe("b", 503, SILENT, RETRY, 8.0) == pytest.approx(2.0)


@given(st.integers(0, 200), st.integers(1, 60_000), st.integers(0, 60_000), st.floats(0, 1, exclude_max=True))
def test_the_back_off_is_between_base_and_max(steps: int, base: int, more: int, drawn: float) -> None:
    """Whatever is drawn."""
    retry = RetryPolicy(base_ms=base, max_ms=base + more)
    assert base / 1000 <= back_off_s(steps, retry, drawn) <= (base + more) / 1000 + 1e-9


@given(st.integers(0, 200), st.integers(2, 60_000), st.floats(0, 1, exclude_max=True))
def test_a_base_above_max_counts_for_both(steps: int, base: int, drawn: float) -> None:
    """As two Policies may come together; Envoy is told the same."""
    assert back_off_s(steps, RetryPolicy(base_ms=base, max_ms=1), drawn) == pytest.approx(base / 1000)


def test_few_go_first() -> None:
    """One, then two, then four; who has to wait is told for how long."""
    cooling = cooled(told(5.0))
    went = [
        sum(cooling.wait_s("b", 5.0 + step * RAMP_S + 0.001) == 0.0 for _ in range(9)) for step in range(4)
    ]
    assert went == [1, 1, 2, 4]
    assert cooling.wait_s("b", 5.0 + 3.5 * RAMP_S) == pytest.approx(0.5 * RAMP_S)
    assert all(cooling.wait_s("b", 5.0 + RAMPS * RAMP_S + 0.001) == 0.0 for _ in range(10_000))


def test_an_answer_opens_it_for_all() -> None:
    """No need to go on slowly."""
    cooling = cooled(told(5.0))
    assert cooling.wait_s("b", 5.0) == 0.0
    assert cooling.wait_s("b", 5.0) > 0.0
    cooling.observe("b", 400, NO_HINT, RETRY, 5.05)
    assert all(cooling.wait_s("b", 5.05) == 0.0 for _ in range(100))


def test_what_nobody_has_heard_of_is_forgotten() -> None:
    """So that nothing is kept for ever."""
    cooling = cooled(told(5.0))
    assert cooling.wait_s("b", 5.1 + FORGOTTEN_S) == 0.0
    assert "b" not in cooling


def test_what_others_found_out() -> None:
    """It counts as if this processor had."""
    cooling = Cooling(lambda: 0.0)
    cooling.cool("b", 4.0, 1.0)
    cooling.cool("b", 2.0, 1.0)
    assert cooling.ready_in_s("b", 1.0) == pytest.approx(4.0)


def test_a_key_cools_by_itself() -> None:
    """Others of its Backend do not; all do while the Backend itself cools, and longest counts."""
    cooling = Cooling(lambda: 0.0)
    cooling.observe("b#1", 429, told(7.0), RETRY, 0.0)
    assert "b" in cooling
    assert [cooling.ready_in_s(one, 0.0) for one in ("b#1", "b#2", "b")] == [7.0, 0.0, 0.0]
    assert cooling.wait_s("b#2", 0.0) == 0.0
    cooling.observe("b", 503, told(3.0), RETRY, 0.0)
    assert [cooling.ready_in_s(one, 0.0) for one in ("b#1", "b#2", "b")] == [7.0, 3.0, 3.0]
    assert [cooling.wait_s(one, 0.0) for one in ("b#1", "b#2", "b")] == [7.0, 3.0, 3.0]
    assert [cooling.knows(one) for one in ("b#1", "b#2", "b")] == [True, False, True]


def test_an_answer_to_one_key_shows_that_the_backend_serves() -> None:
    """It says nothing of other keys."""
    cooling = Cooling(lambda: 0.0)
    cooling.observe("b", 503, told(1.0), RETRY, 0.0)
    cooling.observe("b#1", 429, told(1.0), RETRY, 0.0)
    cooling.observe("b#2", 200, NO_HINT, RETRY, 2.0)
    assert [cooling.knows(one) for one in ("b#1", "b")] == [True, False]


def test_a_call_that_does_not_go_after_all_is_not_counted() -> None:
    """The next one has the Backend to itself."""
    cooling = cooled(told(1.0))
    assert cooling.wait_s("b", 1.0) == 0.0
    assert cooling.wait_s("b", 1.0) > 0.0
    cooling.take_back("b")
    cooling.take_back("unknown")
    assert cooling.wait_s("b", 1.0) == 0.0


def test_keys_that_never_come_again_are_forgotten() -> None:
    """By the calls of others."""
    cooling = Cooling(lambda: 0.0)
    for number in range(3):
        cooling.observe(f"b#{number}", 429, told(1.0), RETRY, 0.0)
    for _ in range(3):
        assert cooling.wait_s("b#new", 1.1 + FORGOTTEN_S) == 0.0
    assert "b" not in cooling
