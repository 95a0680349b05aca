"""A true sliding window: at most so many in any trailing minute, or day (pure, the time is passed in).

A ring of slices. What is admitted within a second of a slice's beginning is counted in that slice, and a
slice is counted whole until its newest part is a minute old. So a window never holds more than its limit, and
lets go what it holds a second late at most: 98.4 % of the limit pass in the worst case
(docs/decisions/sliding-window.md). A day is 24 hours, in slices of 20 minutes.

Times are whole microseconds, as Redis tells them; `ext_proc/stores/lua/reserve.lua` does the same sums.
"""

from __future__ import annotations

from collections import deque
from typing import Final

SPAN_US: Final = 60_000_000
SLICE_US: Final = 1_000_000
DAY_US: Final = 86_400_000_000
DAY_SLICE_US: Final = 1_200_000_000


class _Slice:
    __slots__ = ("amount", "begun", "newest")

    def __init__(self, begun: int, amount: int) -> None:
        self.begun = begun
        self.newest = begun
        self.amount = amount


class Window:
    """What has been used within the last `span_us`. `used` is right after `pass_time`."""

    __slots__ = ("_slice_us", "_slices", "_span_us", "used")

    def __init__(self, span_us: int = SPAN_US, slice_us: int = SLICE_US) -> None:
        self._span_us = span_us
        self._slice_us = slice_us
        self._slices: deque[_Slice] = deque()
        self.used = 0

    def pass_time(self, now: int) -> None:
        """Let go what is a span old. A clock that was put back makes nothing last longer than a span."""
        slices = self._slices
        if not slices:
            return
        while slices[0].newest + self._span_us <= now:
            self.used -= slices.popleft().amount
            if not slices:
                return
        if slices[-1].newest > now:
            for one in slices:
                one.begun, one.newest = min(one.begun, now), min(one.newest, now)

    def fits_at(self, amount: int, limit: int) -> int:
        """Return when `amount` more fit into `limit`, 0 for at once; seen from the last `pass_time`.

        More than `limit` counts as `limit`: it fits when nothing is used.
        """
        over = self.used + min(amount, limit) - limit
        if over <= 0:
            return 0
        newest = 0
        for one in self._slices:
            over -= one.amount
            newest = one.newest
            if over <= 0:
                break
        return newest + self._span_us

    def add(self, now: int, amount: int) -> None:
        """Count `amount`, whether it fits or not."""
        slices = self._slices
        if slices and now - slices[-1].begun < self._slice_us:
            last = slices[-1]
            last.newest = now
            last.amount += amount
        else:
            slices.append(_Slice(now, amount))
        self.used += amount

    def take_back(self, at: int, amount: int) -> None:
        """Give back `amount` of what was added at the time `at`, unless it has been let go meanwhile."""
        for one in reversed(self._slices):
            if one.begun <= at:
                if at <= one.newest:
                    given = min(amount, one.amount)
                    one.amount -= given
                    self.used -= given
                return

    def full_again_us(self) -> int:
        """Return when nothing will be used any more, 0 for at once."""
        return self._slices[-1].newest + self._span_us if self._slices and self.used else 0
