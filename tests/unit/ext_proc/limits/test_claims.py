"""Values."""

from __future__ import annotations

from ext_proc.limits.claims import Reading, tightest


def test_the_tightest_reading_has_the_least_left() -> None:
    """Of equal ones the smaller limit; without any there is none."""
    wide, narrow, lowered = Reading(10, 5, 1.0), Reading(5, 0, 1.0), Reading(3, 9, 1.0)
    assert tightest([wide, narrow]) is narrow
    assert tightest([wide, narrow, lowered]) is lowered
    assert lowered.remaining == 0
    assert tightest([]) is None
