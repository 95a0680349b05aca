"""Histograms whose buckets grow by a tenth: they merge by adding, and a quantile is exact to a bucket (pure).

Bucket i counts what is above 1.1^(i-1) and at most 1.1^i, in whatever unit was counted; see `push.proto`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

Histogram = Mapping[int, int]

GROWTH: Final = 1.1


def merged(one: Histogram, other: Histogram) -> Histogram:
    """Return both as one."""
    if not one or not other:
        return one or other
    total = dict(one)
    for bucket, count in other.items():
        total[bucket] = total.get(bucket, 0) + count
    return total


def minus(later: Histogram, earlier: Histogram) -> Histogram:
    """Return what came to `earlier` to make it `later`."""
    return {bucket: more for bucket, count in later.items() if (more := count - earlier.get(bucket, 0)) > 0}


def size(histogram: Histogram) -> int:
    """Return how many were counted."""
    return sum(histogram.values())


def quantile_bucket(histogram: Histogram, share: float) -> int | None:
    """Return the bucket below or in which at least `share` of all are; None when nothing was counted."""
    wanted = share * size(histogram)
    reached = 0
    for bucket in sorted(histogram):
        reached += histogram[bucket]
        if reached >= wanted:
            return bucket
    return None


def quantile(histogram: Histogram, share: float) -> float | None:
    """Return the value that `share` (0 to 1) of all do not exceed; None when nothing was counted.

    Within its bucket counts are taken as evenly spread by their logarithm.
    """
    bucket = quantile_bucket(histogram, share)
    if bucket is None:
        return None
    below = sum(count for index, count in histogram.items() if index < bucket)
    within = (share * size(histogram) - below) / histogram[bucket]
    return math.pow(GROWTH, bucket - 1 + min(max(within, 0.0), 1.0))


def above(histogram: Histogram, bucket: int) -> int:
    """Return how many are in buckets beyond `bucket`."""
    return sum(count for index, count in histogram.items() if index > bucket)
