"""How warm a provider is: when it was called last, and whether a first call after a pause was slow (pure)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import Final

REMEMBERED: Final = 32
KNOWN_FROM: Final = 5
"""So many calls tell what is usual."""
TIMES_USUAL: Final = 3.0
SLOWER_BY_S: Final = 0.2


def is_cold(first_byte_s: float, usual_s: float) -> bool:
    """Say whether a first call was a cold start: three times as slow as usual, and a fifth of a second."""
    return first_byte_s > max(TIMES_USUAL * usual_s, usual_s + SLOWER_BY_S)


@dataclass(slots=True)
class Warmth:
    """One Backend. Times are seconds of one clock.

    The first call of all is judged when enough others have told what is usual.
    """

    used_at: float | None = None
    usual: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    unjudged: float | None = None

    def sent(self, now: float, idle_after_s: float) -> bool:
        """Take notice of a call; return whether it is the first one after a pause, or of all."""
        first = self.used_at is None or now - self.used_at >= idle_after_s
        self.used_at = now
        return first

    def answered(self, first_byte_s: float, *, first: bool) -> bool:
        """Take notice of an answer's first byte; return whether a cold start has come to light."""
        if first and len(self.usual) < KNOWN_FROM:
            self.unjudged = first_byte_s
            return False
        if first:
            return is_cold(first_byte_s, median(self.usual))
        self.usual.append(first_byte_s)
        if self.unjudged is None or len(self.usual) < KNOWN_FROM:
            return False
        waited, self.unjudged = self.unjudged, None
        return is_cold(waited, median(self.usual))
