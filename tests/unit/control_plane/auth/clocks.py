"""Clocks and randomness whose every value a test decides."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


class Clock:
    """Stands still until it is told otherwise; `seconds` is monotonic, `now` the time of day."""

    def __init__(self) -> None:
        self.at_s = 1_000.0

    def seconds(self) -> float:
        """Return the monotonic time."""
        return self.at_s

    def now(self) -> datetime:
        """Return the time of day."""
        return NOON + timedelta(seconds=self.at_s - 1_000.0)

    def pass_s(self, seconds: float) -> None:
        """Let time pass."""
        self.at_s += seconds


def counting_entropy() -> Callable[[int], bytes]:
    """Return "randomness" that never repeats."""
    numbers = count(1)
    return lambda size: next(numbers).to_bytes(size, "big")
