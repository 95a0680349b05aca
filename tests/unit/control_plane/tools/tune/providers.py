"""Providers that are a formula, and observations of them."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from control_plane.tools.tune.racing import Race, Trial, places
from control_plane.tools.tune.settings import Observation, Setting, Target


@dataclass(frozen=True, slots=True)
class Formula:
    """A provider whose calls take `base + each * size + square * size²` ms, `slots` at once, with a spread.

    A window adds, on average, half of itself. `shared` tokens are paid once a call, `own` once a question.
    """

    base: float = 120.0
    each: float = 4.0
    square: float = 0.05
    slots: int = 8
    spread: float = 0.25
    shared: int = 20
    own: int = 40

    def mean_ms(self, setting: Setting, callers: int) -> float:
        """Return the mean latency of a call."""
        size = setting.size
        alone = self.base + self.each * size + self.square * size * size
        lanes = places(size, callers) / size
        return alone * max(1.0, lanes / self.slots) + (setting.window_ms or 0) / 2

    def score(self, setting: Setting, callers: int, target: Target) -> float:
        """Return the true score of a setting."""
        mean = self.mean_ms(setting, callers)
        if target is Target.P99:
            return mean * math.exp(2.326 * self.spread - self.spread**2 / 2)
        if target is Target.COST:
            return self.own + self.shared / setting.size
        return mean / places(setting.size, callers)

    def observe(self, trial: Trial, callers: int, chance: random.Random) -> list[Observation]:
        """Return the calls of a trial."""
        size = trial.setting.size
        mean_s = self.mean_ms(trial.setting, callers) / 1000
        return [
            self._call(size, mean_s * chance.lognormvariate(-(self.spread**2) / 2, self.spread))
            for _ in range(max(1, trial.questions // size))
        ]

    def _call(self, size: int, seconds: float) -> Observation:
        return Observation(seconds, seconds * size, size, size, self.shared + self.own * size, self.shared)


def observation(seconds: float, asked: int = 1, good: int | None = None, tokens: int = 0) -> Observation:
    """Return one call."""
    return Observation(seconds, seconds * asked, asked, asked if good is None else good, tokens)


def run(race: Race, provider: Formula) -> list[Trial]:
    """Race to the end; return the trials."""
    made = []
    while (trial := race.following()) is not None:
        made.append(trial)
        race.tell(trial.setting, provider.observe(trial, race.callers, race.chance))
    return made
