"""The buckets that times and lengths are counted in; push.proto says what each holds (pure)."""

from __future__ import annotations

import math
from typing import Final

BUCKET_GROWTH: Final = 1.1
"""Neighbouring buckets' bounds differ by this factor: a quantile is exact to 10 %."""


def bucket(seconds: float) -> int:
    """Return the bucket of a time: what is above 1.1^(i-1) and at most 1.1^i milliseconds is in bucket i."""
    milliseconds = max(seconds * 1000.0, 1.0)
    index = math.ceil(math.log(milliseconds, BUCKET_GROWTH))
    # The logarithm of a bound itself may come out a hair too high.
    return index - 1 if BUCKET_GROWTH ** (index - 1) >= milliseconds else index
