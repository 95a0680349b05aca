"""Releases whose versions behave as told, played through the analysis by a seeded draw."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from control_plane.releases.analysis import Analysis, Outcome, Verdict, folded, judged
from control_plane.releases.counts import Both, Counts
from control_plane.releases.gates import Gate, gates_of
from control_plane.resources.kinds.release import Gates

STEPS = (0.05, 0.25, 0.5, 1.0)
PER_INTERVAL = 100
MIN_REQUESTS = 200
_ERROR = -1


@dataclass(frozen=True)
class Behaviour:
    """What a version does: how often it fails, and times that are log-normal around a median."""

    error_rate: float = 0.01
    median_ms: float = 800.0
    spread: float = 0.5

    def population(self) -> tuple[list[int], list[float]]:
        """Return buckets (or an error) with how likely each is, summed up."""
        buckets, reached = [_ERROR], [self.error_rate]
        last = 0.0
        for bucket in range(1, 140):
            deviation = (bucket * math.log(1.1) - math.log(self.median_ms)) / self.spread
            below = 0.5 * (1 + math.erf(deviation / math.sqrt(2)))
            buckets.append(bucket)
            reached.append(reached[-1] + (below - last) * (1 - self.error_rate))
            last = below
        return buckets, reached


@dataclass(frozen=True)
class Played:
    """How a Release ended, after how many requests to its new version."""

    verdict: Verdict
    new_requests: int
    step: int


def play(
    old: Behaviour,
    new: Behaviour,
    rng: random.Random,
    *,
    steps: Sequence[float] = STEPS,
    at_most: int = 1 << 30,
    gates: Sequence[Gate] | None = None,
    good_for: int = 0,
    bake: int = 0,
) -> Played:
    """Play a Release to its end, or until the new version had `at_most` requests.

    For `good_for` intervals the new version behaves as the old one does. A step lasts for `bake` requests to
    the new version at least.
    """
    gates = gates_of(Gates()) if gates is None else gates
    populations = old.population(), new.population()
    analysis, requests, interval = Analysis(), 0, 0
    verdict = Verdict(Outcome.WAIT, "")
    for number, share in enumerate(steps):
        began = requests
        while True:
            interval += 1
            changed = populations[1] if interval > good_for else populations[0]
            news = sum(rng.random() < share for _ in range(PER_INTERVAL))
            both = Both(_counts(populations[0], rng, PER_INTERVAL - news), _counts(changed, rng, news))
            requests += news
            analysis = folded(analysis, both, gates, share)
            verdict = judged(analysis, gates, share, MIN_REQUESTS)
            if verdict.outcome is Outcome.FAIL or requests >= at_most:
                return Played(verdict, requests, number)
            if verdict.outcome is Outcome.PASS and interval > good_for and requests - began >= bake:
                break
        analysis = analysis.at_next_step()
    return Played(verdict, requests, len(steps))


def _counts(population: tuple[list[int], list[float]], rng: random.Random, calls: int) -> Counts:
    buckets, reached = population
    drawn = Counter(rng.choices(buckets, cum_weights=reached, k=calls))
    errors = drawn.pop(_ERROR, 0)
    return Counts(calls, errors, calls * 100, calls * 200, dict(drawn), dict(drawn), {56: calls - errors})
