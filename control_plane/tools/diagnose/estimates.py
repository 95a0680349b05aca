"""Medians and differences of few, skewed times, with 95 % intervals (pure).

Latencies are no normal variables and one outlier is normal, so everything here goes by order: the sign test's
interval of a median, and the Hodges-Lehmann shift with the Mann-Whitney interval
(https://en.wikipedia.org/wiki/Hodges-Lehmann_estimator). With few samples an interval is the whole range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

_Z: Final = 1.96
_TAIL: Final = 0.025
_ORDERS: Final = 20  # of which one is "all slow ones above all fast ones"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value, the 95 % interval around it, and from how many calls it comes."""

    value: float
    low: float
    high: float
    n: int

    def less(self, value: float) -> Estimate:
        """Return this without a part that is known."""
        return Estimate(self.value - value, self.low - value, self.high - value, self.n)

    def times(self, factor: float) -> Estimate:
        """Return this in another unit; `factor` is positive."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor, self.n)


def middle(samples: Sequence[float]) -> Estimate | None:
    """Return the median; None without samples."""
    if not samples:
        return None
    ordered = sorted(samples)
    cut = _sign_cut(len(ordered))
    return Estimate(median(ordered), ordered[cut], ordered[-1 - cut], len(ordered))


def shift(slow: Sequence[float], fast: Sequence[float]) -> Estimate | None:
    """Return by how much `slow` is above `fast`; None when either has no samples."""
    if not slow or not fast:
        return None
    gaps = sorted(one - other for one in slow for other in fast)
    pairs, calls = len(gaps), len(slow) + len(fast)
    cut = max(0, math.floor(pairs / 2 - _Z * math.sqrt(pairs * (calls + 1) / 12)))
    # One or two calls may all be above the others by chance; then they may be off by as much as calls differ.
    few = math.comb(calls, len(slow)) < _ORDERS
    spread = max(max(slow) - min(slow), max(fast) - min(fast)) if few else 0.0
    return Estimate(median(gaps), gaps[cut] - spread, gaps[-1 - cut] + spread, calls)


def student_t(degrees: int) -> float:
    """Return the two-sided 95 % quantile of Student's t (Abramowitz and Stegun 26.7.5; exact for 1 and 2)."""
    if degrees <= 2:
        return 12.706 if degrees < 2 else 4.303
    z = 1.959964
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + terms[0] / degrees + terms[1] / degrees**2 + terms[2] / degrees**3


def _sign_cut(count: int) -> int:
    """Return how many samples each end of the median's interval leaves out."""
    reached, cut = 0.0, 0
    for place in range(count // 2):
        reached += math.comb(count, place) / 2**count
        if reached > _TAIL:
            break
        cut = place
    return cut
