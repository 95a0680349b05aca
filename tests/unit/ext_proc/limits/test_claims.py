"""Values."""

from __future__ import annotations

from ext_proc.contract.snapshot import Limits
from ext_proc.limits.claims import Account, Reading, tightest
from ext_proc.limits.priorities import shedding_of


def test_absurd_limits_are_bounds_all_the_same() -> None:
    """No sum of them overflows, and the smallest is at least one."""
    absurd = Account("a", "a", Limits(2**53, 2**53, 2**53, False, 2**53, 1e308), shedding_of(0, (0, 1)))
    assert [bound.limit for bound in absurd.bounds] == [2**53] * 4
    assert all(0 < bound.asked < bound.idle < bound.limit for bound in absurd.bounds)
    (tiny,) = Account("a", "a", Limits(cost_per_day=1e-300)).bounds
    assert tiny.limit == 1


def test_the_tightest_reading_has_the_least_left() -> None:
    """Of equal ones the smaller limit; without any there is none."""
    wide, narrow, lowered = Reading(10, 5, 1.0), Reading(5, 0, 1.0), Reading(3, 9, 1.0)
    assert tightest([wide, narrow]) is narrow
    assert tightest([wide, narrow, lowered]) is lowered
    assert lowered.remaining == 0
    assert tightest([]) is None
