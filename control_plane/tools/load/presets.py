"""Presets, loads that have a name, and how they join with what a user says (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from control_plane.tools.load.arrivals import Arrivals
from control_plane.tools.load.mix import Mix
from control_plane.tools.load.plan import (
    DEFAULT_CALLERS,
    MOST_IN_FLIGHT,
    ClosedLoop,
    OpenLoop,
    Plan,
    bounds,
)


class Preset(StrEnum):
    """Their names."""

    QUICK = "quick"
    STRESS = "stress"
    SOAK = "soak"


@dataclass(frozen=True, slots=True)
class Shape:
    """A closed loop: callers at once, calls altogether, seconds of ramp, seconds at most."""

    callers: int
    requests: int
    ramp_s: float
    duration_s: float


PRESETS: Final = {
    Preset.QUICK: Shape(callers=10, requests=500, ramp_s=0, duration_s=30),
    Preset.STRESS: Shape(callers=200, requests=200 * 300, ramp_s=30, duration_s=1800),
    Preset.SOAK: Shape(callers=20, requests=1_000_000, ramp_s=10, duration_s=1800),
}


@dataclass(frozen=True, slots=True)
class Wish:
    """What a user says, None where nothing is said. `callers` bounds the calls in flight when there is a
    `rate`.
    """

    callers: int | None = None
    requests: int | None = None
    duration_s: float | None = None
    rate: float | None = None
    arrivals: Arrivals = Arrivals.CONSTANT
    ramp_s: float | None = None
    preset: Preset | None = None

    def plan(self, mix: Mix, first: int) -> Plan:
        """Return the plan: what is said goes before the preset, which goes before the defaults."""
        shape = PRESETS[self.preset] if self.preset is not None else None
        ramp_s = self.ramp_s or (shape.ramp_s if shape else 0.0)
        limits = bounds(
            self.requests or (shape.requests if shape else None),
            self.duration_s or (shape.duration_s if shape else None),
        )
        if self.rate is not None:
            most = self.callers or MOST_IN_FLIGHT
            return Plan(mix, OpenLoop(self.rate, self.arrivals, ramp_s, most), limits, first)
        callers = self.callers or (shape.callers if shape else DEFAULT_CALLERS)
        return Plan(mix, ClosedLoop(callers, ramp_s), limits, first)
