"""So many at once, so many a second."""

from __future__ import annotations

from control_plane.controller.budget import Budget


def test_a_budget_is_spent_and_fills_again() -> None:
    """Two at once, then one for each half second, never more than two."""
    time = [0.0]
    budget = Budget(2, 2, lambda: time[0])
    assert [budget.take() for _ in range(3)] == [True, True, False]
    time[0] = 0.5
    assert [budget.take() for _ in range(2)] == [True, False]
    time[0] = 100
    assert [budget.take() for _ in range(3)] == [True, True, False]
