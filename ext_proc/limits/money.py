"""What a call costs, in whole millionths of the currency that `prices` are in (pure)."""

from __future__ import annotations

import math
from typing import Final

from ext_proc.contract.snapshot import Prices

MOST: Final = 2**53
"""More is not counted: Redis' numbers are exact up to here."""


def cost_of(prices: Prices | None, prompt: int, output: int) -> int:
    """Return the cost of so many tokens, rounded up; 0 without prices.

    A price is for a million tokens, so one token costs that many millionths.
    """
    if prices is None:
        return 0
    return math.ceil(min(prompt * prices.input_per_million + output * prices.output_per_million, MOST))
