"""How long to wait after the n-th failure in a row: doubling, capped, out of step with others (pure)."""

from __future__ import annotations

from typing import Final

FIRST_S: Final = 0.25
LONGEST_S: Final = 5.0


def pause_s(failures: int, draw: float) -> float:
    """Return the pause in seconds.

    Args:
        failures: how many there were in a row, from 1.
        draw: from 0 to 1, at random.
    """
    whole = min(LONGEST_S, FIRST_S * 2.0 ** min(failures - 1, 10))
    return whole * (0.5 + draw / 2)
