"""How many inputs a batch should have and how long they should gather, learned from what happens (pure).

Additive increase, multiplicative decrease, as TCP does it (RFC 5681, 3.1): a full batch that is answered in
time makes room for one more input, one that is late halves the size. The window is how long that many inputs
take to arrive, by their rate; where nobody is expected, nobody waits.
"""

from __future__ import annotations

import math
from typing import Final

DECREASE: Final = 0.5
FULL: Final = 0.8
"""What of the size a batch must have for its time to say that more would fit."""
SLACK: Final = 2.0
"""Without a goal, how many times the quickest call a batch may take."""
FORGET: Final = 0.01
"""By how much of itself the quickest call's time grows with each batch: providers change."""
RATE_OVER_S: Final = 1.0
"""Over what time arrivals are averaged."""


class Adaptation:
    """The size and the window of one Model version's batches.

    Args:
        max_inputs: what the policy allows at most.
        max_wait_s: likewise, in seconds.
        goal_s: the time within which a batch should be answered; None: `SLACK` times the quickest.
    """

    __slots__ = ("_goal_s", "_last", "_max_inputs", "_max_wait_s", "_quickest_s", "_rate", "_size")

    def __init__(self, max_inputs: int, max_wait_s: float, goal_s: float | None) -> None:
        self._max_inputs = max_inputs
        self._max_wait_s = max_wait_s
        self._goal_s = goal_s
        self._size = max(1.0, max_inputs / 4)
        self._quickest_s = math.inf
        self._rate = 0.0
        self._last = -math.inf

    @property
    def size(self) -> int:
        """How many inputs a batch should have, 1 to `max_inputs`."""
        return int(self._size)

    def arrived(self, now: float, inputs: int) -> None:
        """Take notice of inputs that came at `now`, in seconds."""
        fade = math.exp(-max(now - self._last, 0.0) / RATE_OVER_S)
        self._rate = self._rate * fade + inputs / RATE_OVER_S
        self._last = now

    def answered(self, inputs: int, took_s: float) -> None:
        """Take notice of a batch that was answered."""
        self._quickest_s = min(self._quickest_s * (1 + FORGET), took_s)
        goal_s = self._goal_s if self._goal_s is not None else SLACK * self._quickest_s
        if took_s > goal_s:
            self._size = max(1.0, self._size * DECREASE)
        elif inputs >= FULL * self.size:
            self._size = min(float(self._max_inputs), self._size + 1)

    def window_s(self, now: float) -> float:
        """Return how long the first input should wait for others."""
        rate = self._rate * math.exp(-max(now - self._last, 0.0) / RATE_OVER_S)
        expected = rate * self._max_wait_s
        if expected < 1 or self.size == 1:
            return 0.0
        return min(self.size / rate, self._max_wait_s)
