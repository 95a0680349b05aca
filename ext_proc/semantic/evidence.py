"""When a candidate may be served: the error bound, learned from what was explored (pure).

The idea is vCache's (arXiv 2502.03771): no similarity is safe by itself, so explore, and serve where
exploring has shown that at most the wanted share of served answers is wrong. What is promised here is of the
served ones alone, `P(wrong | served) <= bound`, with confidence `1 - DOUBT` at every moment at once:

- A partition's outcomes are counted by similarity. For each level `t`, the null hypothesis "of candidates at
  least as similar as `t`, a share of `bound` or more is wrong" is tested by betting: for any `q < bound` the
  product of `q / bound` for each wrong and `(1 - q) / (1 - bound)` for each right outcome is a
  supermartingale under it, and so is a mixture over `q`. By Ville's inequality it ever reaches `1 / DOUBT`
  with a probability of `DOUBT` at most, however often one looks. With no wrong one, 459 outcomes are
  enough for 1 %, 90 for 5 %.
- Levels are tried in chains, downwards, each as long as the one before holds; the chains share `DOUBT`.
- An entry is another matter than its partition: above the partition's level it is served only beyond its own
  worst mistake, and what it explores below that is not counted for the others. Outcomes of its own may free
  it, by the same test with a hundredth of the doubt, since entries are many.

Assumed: what is explored is like what is served. Which candidates are explored is drawn without looking at
the outcome. Below a level all are explored and above it few, so the less similar ones weigh more than they
should: as long as they are not the better ones, the error is overestimated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, log
from typing import Final

DOUBT: Final = 0.05
OWN_DOUBT: Final = DOUBT / 100
STILL_EXPLORED: Final = 0.04
"""The share of candidates that is explored although they might be served: a world that changes is noticed."""

LEVELS: Final = (0.99, 0.98, 0.97, 0.96, 0.95, 0.93, 0.9, 0.85, 0.8, 0.7, 0.6)
_CHAINS: Final = (1, 4, 7)  # where they begin in LEVELS
_BETS: Final = ((0.4, 0.0), (0.3, 0.15), (0.3, 0.4))  # weight, q as a share of the bound
_LARGEST: Final = 600.0  # as an exponent, a float holds it
MARGIN: Final = 0.005
"""How much more alike than at its worst mistake a candidate must be."""
REMEMBERED: Final = 20_000
"""Of so many outcomes half are forgotten, right and wrong: a world that changes outweighs the past in time.
The root of a supermartingale is one, so that the test stays what it is."""


@dataclass(slots=True)
class Tally:
    """How many candidates of one kind were right and wrong, by the highest level that they reach."""

    right: list[int] = field(default_factory=lambda: [0] * len(LEVELS))
    wrong: list[int] = field(default_factory=lambda: [0] * len(LEVELS))

    def add(self, similarity: float, *, agreed: bool) -> None:
        """Count one outcome; below the last level it is of no use."""
        for place, level in enumerate(LEVELS):
            if similarity >= level:
                (self.right if agreed else self.wrong)[place] += 1
                break
        if sum(self.right) + sum(self.wrong) > REMEMBERED:
            self.right = [count // 2 for count in self.right]
            self.wrong = [-(-count // 2) for count in self.wrong]

    def threshold(self, bound: float, doubt: float = DOUBT) -> float | None:
        """Return from which similarity on at most `bound` (in (0, 1)) are wrong; None where none is sure."""
        wanted = len(_CHAINS) / doubt
        lowest: int | None = None
        for begin in _CHAINS:
            right, wrong = sum(self.right[:begin]), sum(self.wrong[:begin])
            for place in range(begin, len(LEVELS)):
                right += self.right[place]
                wrong += self.wrong[place]
                if evidence(right, wrong, bound) < wanted:
                    break
                lowest = max(place, lowest or 0)
        return None if lowest is None else LEVELS[lowest]


@dataclass(slots=True)
class Record:
    """What exploring has shown of one entry."""

    tally: Tally = field(default_factory=Tally)
    worst_mistake: float = 0.0

    def add(self, similarity: float, *, agreed: bool) -> None:
        """Count one outcome."""
        self.tally.add(similarity, agreed=agreed)
        if not agreed:
            self.worst_mistake = max(self.worst_mistake, similarity)


def evidence(right: int, wrong: int, bound: float) -> float:
    """Return the evidence against "a share of `bound` or more is wrong": 1 is none, 20 is strong."""
    if not 0 < bound < 1:
        return 0.0
    total = 0.0
    for weight, share in _BETS:
        if share or not wrong:
            gained = right * log((1 - share * bound) / (1 - bound))
            lost = wrong * log(share) if wrong else 0.0
            total += weight * exp(min(gained + lost, _LARGEST))
    return total


def is_blameless(similarity: float, record: Record | None) -> bool:
    """Whether the entry made no mistake with a candidate nearly as similar as this, or more so."""
    return record is None or not record.worst_mistake or similarity >= record.worst_mistake + MARGIN


def may_serve(similarity: float, partition: Tally, record: Record | None, bound: float) -> bool:
    """Whether the bound holds for a candidate of the entry with this `record` (None: nothing is known)."""
    if is_blameless(similarity, record):
        threshold = partition.threshold(bound)
        if threshold is not None and similarity >= threshold:
            return True
    if record is None:
        return False
    own = record.tally.threshold(bound, OWN_DOUBT)
    return own is not None and similarity >= own
