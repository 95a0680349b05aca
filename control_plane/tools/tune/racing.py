"""The race: which setting is tried next, with how many questions, until the budget or the choice (pure).

Rounds over the settings that are left; each round is as long as all before it. A setting that is clearly
worse than the best so far drops out, so that most of the budget goes to those that are hard to tell apart
(racing, Maron and Moore 1994, https://papers.nips.cc/paper/841). The race ends early when the best is within
a tenth of the true best with 95 %.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from control_plane.tools.tune.choosing import Demand, Ranking, rank
from control_plane.tools.tune.scoring import Prices, Sample
from control_plane.tools.tune.settings import Ending, Observation, Setting

DEFAULT_CALLERS: Final = 64
PILOT_CALLS: Final = 4
MOST_ROUNDS: Final = 8


@dataclass(slots=True)
class Budget:
    """How many questions, and how many tokens, may be spent; None is no bound on tokens."""

    requests: int
    max_tokens: int | None = None
    asked: int = 0
    tokens: int = 0

    def spend(self, asked: int, tokens: int) -> None:
        """Count what a trial took."""
        self.asked += asked
        self.tokens += tokens

    @property
    def left(self) -> int:
        """How many more questions may be asked, as far as tokens can be foreseen."""
        left = self.requests - self.asked
        if self.max_tokens is None:
            return left
        per_question = max(self.tokens / self.asked, 1e-9) if self.asked else 1.0
        return max(0, min(left, int((self.max_tokens - self.tokens) / per_question)))

    @property
    def short_of(self) -> Ending:
        """Which of the two ends a race that goes on as before."""
        by_requests = self.requests - self.asked
        return Ending.REQUESTS if self.left >= by_requests else Ending.TOKENS


@dataclass(frozen=True, slots=True)
class Trial:
    """What is to be done next."""

    setting: Setting
    questions: int


@dataclass(slots=True)
class Race:
    """The state of a race. Ask `following`, do it, `tell` what came; in the end `ranking`.

    `settings` ascend by size. `callers` is how many questions are in flight whatever the setting, but for
    batches that are larger.
    """

    settings: Sequence[Setting]
    demand: Demand
    budget: Budget
    callers: int
    chance: random.Random
    prices: Prices
    ending: Ending | None = None
    dropped: dict[Setting, int] = field(default_factory=dict)
    _seen: dict[Setting, list[Observation]] = field(default_factory=dict)
    _round: int = 0
    _queue: list[Trial] = field(default_factory=list)

    def following(self) -> Trial | None:
        """Return the next trial, None when the race is over."""
        if self.ending is not None:
            return None
        if not self._queue:
            self._begin_round()
        if not self._queue:
            return None
        trial = self._queue.pop(0)
        if trial.setting.size > self.budget.left:
            # Those that wait are no smaller.
            self.ending = self.budget.short_of
            return None
        return Trial(trial.setting, min(trial.questions, self.budget.left))

    def tell(self, setting: Setting, observations: Sequence[Observation]) -> None:
        """Count what a trial brought."""
        self._seen.setdefault(setting, []).extend(observations)
        self.budget.spend(sum(one.asked for one in observations), sum(one.tokens for one in observations))

    def ranking(self) -> Ranking:
        """Return how the settings stand."""
        samples = {
            setting: Sample(seen, places(setting.size, self.callers), self.prices)
            for setting, seen in self._seen.items()
        }
        return rank(samples, self.demand, self.chance, frozenset(self.dropped))

    def observations(self, setting: Setting) -> Sequence[Observation]:
        """Return what was seen of a setting."""
        return self._seen.get(setting, ())

    def _begin_round(self) -> None:
        left = list(self.settings)
        if self._round:
            ranking = self.ranking()
            if ranking.best is None:
                self.ending = Ending.FAILED
                return
            for setting in ranking.worse:
                self.dropped.setdefault(setting, self._round)
            left = [setting for setting in left if setting not in self.dropped]
            if ranking.settled or len(left) == 1 or self._round >= MOST_ROUNDS:
                self.ending = Ending.SETTLED
                return
        growth = 2 ** max(0, self._round - 1)
        self._round += 1
        wanted = [Trial(one, self._questions(one, growth)) for one in left]
        share = min(1.0, self.budget.left / sum(trial.questions for trial in wanted))
        self._queue = [
            Trial(trial.setting, max(trial.setting.size, int(trial.questions * share))) for trial in wanted
        ]

    def _questions(self, setting: Setting, growth: int) -> int:
        # As many questions for each, so that a figure of one is as sure as that of another; but a batch's
        # questions share one fate, so a few calls at least.
        return max(places(setting.size, self.callers), PILOT_CALLS * setting.size) * growth


def places(size: int, callers: int) -> int:
    """Return how many questions are in flight with batches of `size`: whole batches, one at least."""
    return max(1, callers // size) * size


def callers_within(wanted: int, settings: Sequence[Setting], budget: Budget) -> int:
    """Return how many callers there can be, so that the budget is enough for two rounds."""
    return max(1, min(wanted, budget.requests // (2 * max(1, len(settings)))))
