"""Choosing among settings (pure): which is best, how sure that is, which are clearly worse."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from control_plane.tools.tune.scoring import Figures, Sample
from control_plane.tools.tune.settings import Setting, Target

NEAR: Final = 0.10
SURE: Final = 0.99
EXTRA_ERRORS: Final = 0.01
TIE: Final = 0.02
FEWEST_BLOCKS: Final = {Target.P99: 12, Target.THROUGHPUT: 8, Target.COST: 4}


@dataclass(frozen=True, slots=True)
class Demand:
    """What the best setting is best at, and what it must keep: at most a hundredth more errors than the one
    with the fewest, and a p99 of at most `max_p99_ms` if that is set.
    """

    target: Target = Target.THROUGHPUT
    max_p99_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """One setting's place: its figures, the bounds that hold its score's figure with 95 %, whether it keeps
    the demand, and in which share of the draws it was the best or near it (within a tenth).
    """

    figures: Figures
    low: Figures
    high: Figures
    fit: bool
    near: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """All settings, the best of them (None when none has a good answer), and the clearly worse."""

    standings: Mapping[Setting, Standing]
    best: Setting | None
    worse: frozenset[Setting]

    @property
    def confidence(self) -> float:
        """How likely the best is within a tenth of the true best, 0 to 1."""
        return self.standings[self.best].near if self.best is not None else 0.0

    @property
    def settled(self) -> bool:
        """Whether more trials would hardly change the choice."""
        return self.confidence >= SURE


def rank(
    samples: Mapping[Setting, Sample],
    demand: Demand,
    chance: random.Random,
    dropped: frozenset[Setting] = frozenset(),
) -> Ranking:
    """Return the ranking of what has been tried; what was `dropped` before is no longer the best."""
    figures = {setting: sample.figures() for setting, sample in samples.items() if sample.blocks}
    draws = {setting: samples[setting].draws(chance) for setting in figures}
    scores = {setting: [one.score(demand.target) for one in drawn] for setting, drawn in draws.items()}
    failing = _failing(figures)
    answered = frozenset(one for one in figures if figures[one].throughput > 0) - dropped
    keeping = frozenset(one for one in answered - failing if not _too_slow(figures[one], demand))
    fit = keeping or answered
    best = _best(figures, fit, demand.target)
    known = {setting: scores[setting] for setting in fit}
    judged = {setting for setting in figures if samples[setting].blocks >= FEWEST_BLOCKS[demand.target]}
    standings = {
        setting: Standing(
            figures[setting],
            *_bounds(draws[setting], demand.target),
            setting in keeping,
            _near(setting, known) if setting in judged else 0.0,
        )
        for setting in figures
    }
    worse = frozenset(
        setting
        for setting in judged - {best}
        if best is not None
        and (
            setting in failing
            or _mostly(_too_slow(one, demand) for one in draws[setting])
            or _mostly(mine > its for mine, its in zip(scores[setting], scores[best], strict=True))
        )
    )
    return Ranking(standings, best, worse)


def _failing(figures: Mapping[Setting, Figures]) -> frozenset[Setting]:
    """Return the settings that fail more often than the one that fails least, beyond chance.

    The questions of a call fail together, so chance is that of so many calls (Wald's bound).
    """
    fewest = min((one.error_rate for one in figures.values()), default=0.0)
    return frozenset(
        setting
        for setting, one in figures.items()
        if one.error_rate - 2 * math.sqrt(one.error_rate * (1 - one.error_rate) / one.calls)
        > fewest + EXTRA_ERRORS
    )


def _too_slow(figures: Figures, demand: Demand) -> bool:
    return demand.max_p99_ms is not None and figures.tail > demand.max_p99_ms


def _best(figures: Mapping[Setting, Figures], fit: frozenset[Setting], target: Target) -> Setting | None:
    """Return the one with the least score; of those that tie, the quickest, or the one with most answers."""
    if not fit:
        return None
    least = min(figures[setting].score(target) for setting in fit)
    tied = [setting for setting in fit if figures[setting].score(target) <= least * (1 + TIE)]
    second = Target.P99 if target is Target.THROUGHPUT else Target.THROUGHPUT
    return min(tied, key=lambda setting: (figures[setting].score(second), setting.size))


def _near(setting: Setting, scores: Mapping[Setting, list[float]]) -> float:
    if setting not in scores:
        return 0.0
    mine = scores[setting]
    rounds = range(len(mine))
    return sum(mine[n] <= min(one[n] for one in scores.values()) * (1 + NEAR) for n in rounds) / len(mine)


def _mostly(held: Iterable[bool]) -> bool:
    kept = list(held)
    return sum(kept) / len(kept) >= SURE


def _bounds(draws: list[Figures], target: Target) -> tuple[Figures, Figures]:
    ranked = sorted(draws, key=lambda one: _figure(one, target))
    return ranked[int(len(ranked) * 0.025)], ranked[min(int(len(ranked) * 0.975), len(ranked) - 1)]


def _figure(figures: Figures, target: Target) -> float:
    if target is Target.P99:
        return figures.tail
    return figures.throughput if target is Target.THROUGHPUT else figures.cost


def finite(value: float) -> float | None:
    """Return a number for JSON, None for what is not finite."""
    return value if math.isfinite(value) else None
