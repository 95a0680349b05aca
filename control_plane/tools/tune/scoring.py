"""Figures and scores of a setting, and how sure they are (pure).

Throughput follows from Little's law (https://en.wikipedia.org/wiki/Little%27s_law): with all places taken,
answers a second are places divided by the time that one answer holds a place. Uncertainty is a bootstrap over
calls (https://en.wikipedia.org/wiki/Bootstrapping_(statistics)): the questions of a batch share one fate.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from control_plane.tools.tune.settings import Observation, Target

DRAWS: Final = 200
MOST_BLOCKS: Final = 60
Z99: Final = 2.326
ENOUGH: Final = 50
GRAIN: Final = math.log(1.01)  # latencies are kept to a hundredth


@dataclass(frozen=True, slots=True)
class Prices:
    """What a million tokens cost, read and written. Without a price the cost of a thousand answers is in
    thousands of tokens, so it reads as tokens an answer.
    """

    read: float = 1000.0
    written: float = 1000.0

    def of(self, observation: Observation) -> float:
        """Return the cost of a call, in millionths."""
        written = observation.tokens - observation.prompt_tokens
        return observation.prompt_tokens * self.read + written * self.written


@dataclass(frozen=True, slots=True)
class Figures:
    """What a setting achieved. Latencies are milliseconds; `cost` is per thousand good answers.

    `p99` is what was seen. Of a few calls that is hardly more than the slowest, and lower the fewer;
    `tail` does not depend on their number: below fifty calls it is the 99th percentile of the normal
    distribution with their mean and spread, from there on what was seen.
    """

    asked: int
    errors: int
    calls: int
    p50: float
    p99: float
    tail: float
    throughput: float
    cost: float

    @property
    def error_rate(self) -> float:
        """The share of questions without an answer."""
        return self.errors / self.asked if self.asked else 0.0

    def score(self, target: Target) -> float:
        """Return what is to be small."""
        if target is Target.P99:
            return self.tail
        if target is Target.COST:
            return self.cost
        return 1 / self.throughput if self.throughput else math.inf


class Sample:
    """Calls of one setting, in blocks that can be drawn again. Made anew when there are more.

    Args:
        observations: in the order in which they were made.
        places: how many questions were in flight.
    """

    def __init__(
        self, observations: Sequence[Observation], places: int, prices: Prices | None = None
    ) -> None:
        self._places = places
        count = min(len(observations), MOST_BLOCKS)
        self._blocks = [_Block(observations[place::count], prices or Prices()) for place in range(count)]

    @property
    def blocks(self) -> int:
        """How many blocks there are: with a few nothing can be said about certainty."""
        return len(self._blocks)

    def figures(self) -> Figures:
        """Return the figures of all calls."""
        return _figures(self._blocks, self._places)

    def draws(self, chance: random.Random, count: int = DRAWS) -> list[Figures]:
        """Return figures as other runs of the same length might have had them."""
        blocks = self._blocks
        return [_figures(chance.choices(blocks, k=len(blocks)), self._places) for _ in range(count)]


class _Block:
    """Some calls, summed up; latencies by their logarithm."""

    def __init__(self, observations: Sequence[Observation], prices: Prices) -> None:
        self.calls = len(observations)
        self.held_s = sum(one.held_s for one in observations)
        self.asked = sum(one.asked for one in observations)
        self.good = sum(one.good for one in observations)
        self.cost = sum(map(prices.of, observations))
        self.latencies: dict[int, int] = {}
        # An error's latency says nothing: a refusal is quick.
        answered = [(one.latency_s, one.good) for one in observations if one.good]
        for seconds, good in answered:
            grain = round(math.log(max(seconds, 1e-6)) / GRAIN)
            self.latencies[grain] = self.latencies.get(grain, 0) + good
        self.answered = len(answered)
        self.seconds = sum(seconds for seconds, _ in answered)
        self.squares = sum(seconds * seconds for seconds, _ in answered)


def _figures(blocks: Sequence[_Block], places: int) -> Figures:
    held_s = sum(block.held_s for block in blocks)
    good = sum(block.good for block in blocks)
    asked = sum(block.asked for block in blocks)
    counts: dict[int, int] = {}
    for block in blocks:
        for grain, count in block.latencies.items():
            counts[grain] = counts.get(grain, 0) + count
    p50, p99 = _percentiles(counts, good)
    return Figures(
        asked=asked,
        errors=asked - good,
        calls=sum(block.calls for block in blocks),
        p50=p50,
        p99=p99,
        tail=_tail(blocks, p99),
        throughput=places * good / held_s if held_s else 0.0,
        cost=sum(block.cost for block in blocks) / good / 1000 if good else math.inf,
    )


def _tail(blocks: Sequence[_Block], p99: float) -> float:
    answered = sum(block.answered for block in blocks)
    if answered < 2 or answered >= ENOUGH:
        return p99
    mean = sum(block.seconds for block in blocks) / answered
    variance = max(0.0, sum(block.squares for block in blocks) / answered - mean * mean)
    return (mean + Z99 * math.sqrt(variance * answered / (answered - 1))) * 1000


def _percentiles(counts: dict[int, int], total: int) -> tuple[float, float]:
    """Return the 50th and the 99th, in milliseconds; infinite when there is no answer."""
    if not total:
        return math.inf, math.inf
    half, most, seen, p50 = total * 0.5, total * 0.99, 0, math.inf
    for grain in sorted(counts):
        seen += counts[grain]
        if p50 == math.inf and seen >= half:
            p50 = math.exp(grain * GRAIN) * 1000
        if seen >= most:
            return p50, math.exp(grain * GRAIN) * 1000
    raise AssertionError("the counts are those of the total")
