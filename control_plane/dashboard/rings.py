"""Numbers of the last minutes: counts in steps of some seconds, and histograms of the last few (pure)."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Final

from control_plane.releases.histograms import GROWTH, Histogram

STEP_S: Final = 5.0
STEPS: Final = 180
"""Fifteen minutes."""


class Ring:
    """Several counts for each of the last `STEPS` steps, and their sums. What is older is forgotten.

    Steps are numbered from any beginning on, and never go back by more than the ring is long.
    """

    __slots__ = ("_counts", "_newest", "_sums", "_width")

    def __init__(self, width: int, step: int) -> None:
        self._width = width
        self._sums = [0] * width
        self._counts = array("Q", bytes(8 * width * STEPS))
        self._newest = step

    @property
    def empty(self) -> bool:
        """Whether nothing is known, after `sums` or `add` went on to a step."""
        return not any(self._sums)

    def add(self, step: int, counts: Sequence[int]) -> None:
        """Count `counts`, one for each place, in `step`, which is not before any that was told."""
        self._go_on(step)
        at = step % STEPS * self._width
        for offset, count in enumerate(counts):
            if count:
                self._counts[at + offset] += count
                self._sums[offset] += count

    def at(self, step: int) -> Sequence[int]:
        """Return the counts of `step`: zeros when it lies outside of what is known."""
        if not self._newest - STEPS < step <= self._newest:
            return [0] * self._width
        at = step % STEPS * self._width
        return self._counts[at : at + self._width]

    def total(self, last: int, steps: int) -> list[int]:
        """Return the sums over `steps` steps up to `last`."""
        found = [0] * self._width
        for step in range(max(last - steps + 1, self._newest - STEPS + 1), min(last, self._newest) + 1):
            for offset, count in enumerate(self.at(step)):
                found[offset] += count
        return found

    def sums(self, step: int) -> Sequence[int]:
        """Return the sums over all `STEPS` steps up to `step`, which is not before any that was told."""
        self._go_on(step)
        return self._sums

    def _go_on(self, step: int) -> None:
        passed = min(step - self._newest, STEPS)
        for offset in range(passed):
            at = (step - offset) % STEPS * self._width
            for place in range(self._width):
                self._sums[place] -= self._counts[at + place]
                self._counts[at + place] = 0
        self._newest = max(step, self._newest)


class Recent:
    """A histogram of the last one to two `half_s`: two halves, of which the older is dropped in time."""

    __slots__ = ("_before", "_half_s", "_now", "_since_s")

    def __init__(self, half_s: float, now_s: float) -> None:
        self._half_s = half_s
        self._since_s = now_s
        self._now: dict[int, int] = {}
        self._before: dict[int, int] = {}

    def add(self, more: Histogram, now_s: float) -> None:
        """Count `more`."""
        self._go_on(now_s)
        count_into(self._now, more)

    def read(self, now_s: float) -> Histogram:
        """Return what was counted lately."""
        self._go_on(now_s)
        found = dict(self._before)
        count_into(found, self._now)
        return found

    def _go_on(self, now_s: float) -> None:
        passed = now_s - self._since_s
        if passed < self._half_s:
            return
        self._before, self._now = (self._now if passed < 2 * self._half_s else {}), {}
        self._since_s = now_s


def count_into(total: dict[int, int], more: Histogram) -> None:
    """Add `more` to `total` in place: `merged` makes a new one each time."""
    for bucket, count in more.items():
        total[bucket] = total.get(bucket, 0) + count


def quantiles(histogram: Histogram, shares: Sequence[float]) -> list[float | None]:
    """Return what `quantile` does for each of `shares`, which grow, in one go over the buckets."""
    if not histogram:
        return [None] * len(shares)
    found: list[float | None] = []
    total, below = sum(histogram.values()), 0
    for bucket in sorted(histogram):
        count = histogram[bucket]
        while len(found) < len(shares) and below + count >= shares[len(found)] * total:
            within = (shares[len(found)] * total - below) / count
            found.append(math.pow(GROWTH, bucket - 1 + min(max(within, 0.0), 1.0)))
        below += count
    return found
