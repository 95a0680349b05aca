"""What calls cost."""

from __future__ import annotations

import pytest

from ext_proc.contract.snapshot import Prices
from ext_proc.limits.money import cost_of


@pytest.mark.parametrize(
    ("prices", "tokens", "cost"),
    [
        pytest.param(None, (100, 100), 0, id="no prices"),
        pytest.param(Prices(2.5, 10.0), (1_000, 100), 3_500, id="a price of a million is millionths of one"),
        pytest.param(Prices(0.15, 0.6), (1, 1), 1, id="rounded up"),
        pytest.param(Prices(1e308, 1e308), (10**9, 10**9), 2**53, id="absurd"),
    ],
)
def test_costs_are_whole_millionths(prices: Prices | None, tokens: tuple[int, int], cost: int) -> None:
    """Never less than it is."""
    assert cost_of(prices, *tokens) == cost
