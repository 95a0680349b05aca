"""Who answers when the one that was chosen cannot: how the processor tells Envoy, call by call.

The plan is dynamic metadata. Envoy's priority groups take the cluster of each attempt from `PLAN`, and
the attempts' script takes from `STAND_INS` what else an attempt needs, and tells in `ATTEMPT` whose it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PLAN: Final = "outrigger.plan"
STAND_INS: Final = "outrigger.stand_ins"
ATTEMPT: Final = "outrigger.attempt"
STAND_IN: Final = "stand_in"
"""In `ATTEMPT`: the number of the stand-in whose turn it is, from 1; absent before the first."""
USED_UP: Final = "used_up"
"""In `ATTEMPT`: true when a 429 is about the account of its key, which no wait changes."""

USAGE_REFUSED_BY: Final = "usage_refused_by"
"""In `ATTEMPT`: the number of who does not know the field that asks for a stream's usage, 0 for the first.

The attempts behind it are made without.
"""


@dataclass(frozen=True, slots=True)
class StandIn:
    """An attempt elsewhere: its cluster, host, whole path with the query, and the model's name in the body.

    `model` is None where that stays the same. `told` is what the access log knows of the call from then on.
    """

    cluster: str
    authority: str
    path: str
    model: str | None
    told: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """`attempts` on the cluster `first`, then one on each stand-in."""

    first: str
    attempts: int
    stand_ins: tuple[StandIn, ...]
