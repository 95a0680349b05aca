"""What a diagnosis may spend."""

import pytest

from control_plane.tools.diagnose.budget import Budget, BudgetSpent


def test_calls_and_tokens_run_out() -> None:
    """A call that does not fit takes nothing."""
    budget = Budget(2, 100)
    budget.take(60)
    with pytest.raises(BudgetSpent):
        budget.take(60)
    budget.settle(60, 10)
    budget.take(60)
    with pytest.raises(BudgetSpent):
        budget.take(1)
    budget.settle(60, 50)
    assert (budget.requests, budget.tokens, budget.tokens_left) == (2, 60, 40)


def test_stopped() -> None:
    """Once stopped, nothing fits."""
    with pytest.raises(BudgetSpent):
        Budget(10, 1000, lambda: True).take(1)
