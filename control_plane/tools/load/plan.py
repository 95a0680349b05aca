"""Plans: what load is to be made, and the bounds it never passes (pure)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from control_plane.tools.load.arrivals import Arrivals
from control_plane.tools.load.mix import Mix

DEFAULT_CALLERS: Final = 10
DEFAULT_REQUESTS: Final = 1_000
DEFAULT_DURATION_S: Final = 60.0
MOST_REQUESTS: Final = 1_000_000
LONGEST_S: Final = 600.0
DRAIN_S: Final = 10.0
MOST_IN_FLIGHT: Final = 10_000


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """`callers` at once; over `ramp_s` seconds they begin one after the other."""

    callers: int = DEFAULT_CALLERS
    ramp_s: float = 0.0


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """`rate` calls a second, whatever the server does. Beyond `most_in_flight` a call waits its turn, and
    the wait is part of its latency.
    """

    rate: float
    arrivals: Arrivals = Arrivals.CONSTANT
    ramp_s: float = 0.0
    most_in_flight: int = MOST_IN_FLIGHT


@dataclass(frozen=True, slots=True)
class Bounds:
    """No call starts after `requests` calls or `duration_s`; `drain_s` later the unfinished are given up."""

    requests: int = DEFAULT_REQUESTS
    duration_s: float = DEFAULT_DURATION_S
    drain_s: float = DRAIN_S


@dataclass(frozen=True, slots=True)
class Plan:
    """What one generator does. Its calls are numbered from `first` in steps of the number of generators;
    `share` is (place, of how many) it is.
    """

    mix: Mix
    pace: ClosedLoop | OpenLoop = ClosedLoop()
    bounds: Bounds = Bounds()
    first: int = 0
    share: tuple[int, int] = (0, 1)


def bounds(requests: int | None, duration_s: float | None) -> Bounds:
    """Return the bounds for what a user said: one that is left out is wide when the other is given."""
    if requests is None and duration_s is None:
        return Bounds()
    return Bounds(
        requests=MOST_REQUESTS if requests is None else requests,
        duration_s=LONGEST_S if duration_s is None else duration_s,
    )


def divided(plan: Plan, generators: int) -> tuple[Plan, ...]:
    """Return the plans of `generators` that together do what `plan` says; fewer when there are fewer callers
    or calls.
    """
    callers = plan.pace.callers if isinstance(plan.pace, ClosedLoop) else plan.pace.most_in_flight
    count = max(1, min(generators, callers, plan.bounds.requests))
    made = []
    for place in range(count):
        pace: ClosedLoop | OpenLoop
        if isinstance(plan.pace, ClosedLoop):
            pace = replace(plan.pace, callers=_part(callers, place, count))
        else:
            pace = replace(plan.pace, most_in_flight=_part(callers, place, count))
        limited = replace(plan.bounds, requests=_part(plan.bounds.requests, place, count))
        made.append(replace(plan, pace=pace, bounds=limited, first=plan.first + place, share=(place, count)))
    return tuple(made)


def _part(total: int, place: int, count: int) -> int:
    return total // count + (place < total % count)
