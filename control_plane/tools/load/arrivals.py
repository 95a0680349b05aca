"""When the calls of an open loop start (pure): at an even pace or as a Poisson process, with a ramp.

The moments of a process whose rate varies are those of one at rate 1, mapped by the inverse of the rate's
integral (time rescaling, https://en.wikipedia.org/wiki/Poisson_point_process#Inversion_for_Cox_processes).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from enum import StrEnum
from itertools import repeat


class Arrivals(StrEnum):
    """How calls are spaced: evenly, or as independent users would."""

    CONSTANT = "constant"
    POISSON = "poisson"


def moments(
    rate: float,
    ramp_s: float = 0.0,
    arrivals: Arrivals = Arrivals.CONSTANT,
    *,
    share: tuple[int, int] = (0, 1),
    chance: random.Random | None = None,
) -> Iterator[float]:
    """Yield seconds from the start, without end; `rate` is calls a second once the ramp is over.

    During the first `ramp_s` seconds the rate rises from 0 in a straight line. `share` is (place, of how
    many): one of several generators that together have the rate. `chance` is drawn from for Poisson.
    """
    place, generators = share
    steps = spacings(arrivals, chance)
    # A Poisson process has no first arrival at 0; an even pace has, and each generator its own place in it.
    counted = float(place) if arrivals is Arrivals.CONSTANT else next(steps) * generators
    for step in steps:
        yield moment_of(counted, rate, ramp_s)
        counted += step * generators


def spacings(arrivals: Arrivals, chance: random.Random | None) -> Iterator[float]:
    """Yield the distances of a process with one arrival a second on average."""
    if arrivals is Arrivals.CONSTANT:
        return repeat(1.0)
    source = chance or random.Random()
    return iter(lambda: source.expovariate(1.0), None)


def moment_of(count: float, rate: float, ramp_s: float) -> float:
    """Return the moment by which `count` calls are expected."""
    within_ramp = rate * ramp_s / 2
    if count < within_ramp:
        return math.sqrt(2 * count * ramp_s / rate)
    return ramp_s + (count - within_ramp) / rate
