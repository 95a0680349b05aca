"""What a call costs, in whole millionths of the currency that `prices` are in (pure)."""

from __future__ import annotations

import math

from ext_proc.contract.snapshot import Prices


def cost_of(prices: Prices | None, prompt: int, output: int) -> int:
    """Return the cost of so many tokens, rounded up; 0 without prices.

    A price is for a million tokens, so one token costs that many millionths.
    """
    if prices is None:
        return 0
    return math.ceil(prompt * prices.input_per_million + output * prices.output_per_million)
