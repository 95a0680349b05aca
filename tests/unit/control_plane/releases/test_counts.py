"""Counts add up."""

from __future__ import annotations

from control_plane.releases.counts import NEITHER, NOTHING, Both, Counts

ONE = Counts(3, 1, 30, 60, {5: 2}, {4: 1}, {7: 2}, 1)
TWO = Counts(4, 0, 40, 80, {5: 1, 6: 3}, {}, {7: 4}, 2)


def test_what_came_since_is_what_was_added() -> None:
    """A sum without its part is the other part."""
    assert (ONE + TWO).since(ONE) == TWO
    assert ONE + NOTHING == ONE


def test_counts_that_shrink_are_none() -> None:
    """A sidecar that counts anew never takes anything away."""
    assert ONE.since(ONE + TWO) == NOTHING


def test_rates_need_calls() -> None:
    """Without any the rate is 0."""
    assert (ONE.error_rate, NOTHING.error_rate) == (1 / 3, 0.0)


def test_both_add_up() -> None:
    """Version by version; nothing at all is false."""
    assert Both(ONE, TWO) + Both(TWO, ONE) == Both(ONE + TWO, TWO + ONE)
    assert not NEITHER
    assert Both(NOTHING, ONE)
