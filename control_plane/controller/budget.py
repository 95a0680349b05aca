"""How often something may happen: so many at once, and so many a second (pure, given a clock)."""

from __future__ import annotations

from collections.abc import Callable


class Budget:
    """A bucket that is full at first.

    Args:
        at_once: how many it holds.
        per_s: how many flow into it in a second.
        clock: monotonic seconds.
    """

    def __init__(self, at_once: float, per_s: float, clock: Callable[[], float]) -> None:
        self._most = at_once
        self._per_s = per_s
        self._clock = clock
        self._left = at_once
        self._at = clock()

    def __repr__(self) -> str:
        return f"<Budget {self._left:.1f} of {self._most:g}>"

    def take(self) -> bool:
        """Take one, if there is one left."""
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._at) * self._per_s)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
