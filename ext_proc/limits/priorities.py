"""Who is shed first where a limit is everybody's: callers of lower priority find it lower (pure).

The lowest may fill all but a twentieth while nobody above it asks, and four fifths from the moment on that
somebody does, until a minute after the last such call. So what the upper leave is used, a first call of
theirs finds a place in any case, and what was borrowed is given back within a minute.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

KEPT_WHEN_IDLE: Final = 0.05
"""What of a limit the lowest leave while nobody above them asks."""
KEPT_WHEN_ASKED: Final = 0.2
"""What they leave once somebody does."""


class Shedding(NamedTuple):
    """How one caller meets a limit that is everybody's.

    `rank` is how many priorities are above its own. `idle` and `asked` are the shares of the limit that it
    may fill: while nobody above asks, and when somebody does.
    """

    rank: int
    idle: float
    asked: float


def shed_threshold(priority: int, priorities: Iterable[int]) -> float:
    """Return the share of a limit beyond which callers of `priority` are refused, 1.0 for the highest.

    `priorities` are all that callers may have. Those between highest and lowest are spread evenly.
    """
    return 1.0 - KEPT_WHEN_ASKED * _depth(priority, priorities)


def shedding_of(priority: int, priorities: Iterable[int]) -> Shedding:
    """Return how callers of `priority` meet a limit that is everybody's."""
    every = {priority, *priorities}
    depth = _depth(priority, every)
    rank = sum(other > priority for other in every)
    return Shedding(rank, 1.0 - KEPT_WHEN_IDLE * depth, 1.0 - KEPT_WHEN_ASKED * depth)


def share_of(limit: int, share: float) -> int:
    """Return what of `limit` is left when `1 - share` of it, in whole pieces, is kept: at least 1."""
    return max(limit - int(round(limit * (1.0 - share), 6)), 1)


def _depth(priority: int, priorities: Iterable[int]) -> float:
    """Return 0 for the highest priority, 1 for the lowest of several."""
    every = {priority, *priorities}
    below = len(every) - 1
    return sum(other > priority for other in every) / below if below else 0.0
