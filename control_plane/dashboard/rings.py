"""Numbers of the last minutes: counts in steps of some seconds, and histograms of the last few (pure)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

from control_plane.releases.histograms import Histogram

STEP_S: Final = 5.0
STEPS: Final = 180
"""Fifteen minutes."""


class Ring:
    """Several counts for each of the last `STEPS` steps. What is older is forgotten as time goes on.

    Steps are numbered from any beginning on, and never go back by more than the ring is long.
    """

    __slots__ = ("_counts", "_newest", "_width")

    def __init__(self, width: int, step: int) -> None:
        self._width = width
        self._counts = array("Q", bytes(8 * width * STEPS))
        self._newest = step

    @property
    def newest(self) -> int:
        """The last step in which something was counted, or the one that it began with."""
        return self._newest

    def add(self, step: int, counts: Sequence[int]) -> None:
        """Count `counts`, one for each place, in `step`, which is not before `newest`."""
        self._go_on(step)
        at = step % STEPS * self._width
        for offset, count in enumerate(counts):
            if count:
                self._counts[at + offset] += count

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

    def _go_on(self, step: int) -> None:
        passed = min(step - self._newest, STEPS)
        blank = array("Q", bytes(8 * self._width))
        for offset in range(passed):
            at = (step - offset) % STEPS * self._width
            self._counts[at : at + self._width] = blank
        self._newest = max(step, self._newest)


class Recent:
    """A histogram of the last one to two `half_s`: two halves, of which the older is dropped in time."""

    __slots__ = ("_before", "_half_s", "_now", "_since_s")

    def __init__(self, half_s: float, now_s: float) -> None:
        self._half_s = half_s
        self._since_s = now_s
        self._now: dict[int, int] = {}
        self._before: dict[int, int] = {}

    def add(self, later: Histogram, earlier: Histogram, now_s: float) -> None:
        """Count what came to `earlier` to make it `later`."""
        self._go_on(now_s)
        now = self._now
        for bucket, count in later.items():
            more = count - earlier.get(bucket, 0)
            if more > 0:
                now[bucket] = now.get(bucket, 0) + more

    def read(self, now_s: float) -> Histogram:
        """Return what was counted lately."""
        self._go_on(now_s)
        found = dict(self._before)
        for bucket, count in self._now.items():
            found[bucket] = found.get(bucket, 0) + count
        return found

    def _go_on(self, now_s: float) -> None:
        passed = now_s - self._since_s
        if passed < self._half_s:
            return
        self._before, self._now = (self._now if passed < 2 * self._half_s else {}), {}
        self._since_s = now_s
