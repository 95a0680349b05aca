"""When a neighbour that fails is asked again."""

from __future__ import annotations

from ext_proc.stores.breaker import Breaker


def test_a_neighbour_that_works_is_asked() -> None:
    """Always."""
    breaker = Breaker()
    assert breaker.allows(0)
    assert not breaker.succeeded()
    assert breaker.allows(0)


def test_after_a_failure_it_is_left_alone_and_then_tried_once() -> None:
    """One call at a time; the pause doubles up to its limit; a success ends it."""
    breaker = Breaker()
    assert breaker.failed(0)
    assert [breaker.allows(now) for now in (0, 0.9, 1.0, 1.0)] == [False, False, True, False]
    assert not breaker.failed(1.0)
    assert [breaker.allows(now) for now in (2.9, 3.0)] == [False, True]
    now = 3.0
    for _ in range(8):
        breaker.failed(now)
        now += 10.0
        assert breaker.allows(now)
    assert breaker.succeeded()
    assert breaker.allows(now)
    assert breaker.failed(now)
    assert breaker.allows(now + 1.0)


def test_calls_that_had_begun_do_not_prolong_the_pause() -> None:
    """A hundred that fail together count once."""
    breaker = Breaker()
    assert [breaker.failed(0) for _ in range(3)] == [True, False, False]
    assert breaker.allows(1.0)


def test_a_try_that_was_given_up_leaves_the_next_one() -> None:
    """Its caller has left: that says nothing."""
    breaker = Breaker()
    breaker.failed(0)
    assert breaker.allows(1.0)
    breaker.gave_up()
    assert breaker.allows(1.0)
