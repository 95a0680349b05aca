"""What was answered without a model call, and what that saved: plain numbers that grow.

Counting costs the hot path an addition or two; `telemetry.cache_metrics` shows the numbers, and the agent
gathers them (docs/policies/cache.md, "Seeing it").
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from ext_proc.answers import StoredAnswer
from ext_proc.contract.cache import HIT_AGE_BOUNDS_S
from ext_proc.contract.snapshot import Prices

SEMANTIC: Final = "semantic"
STALE: Final = "stale"
PIN: Final = "pin"
SERVED_BY: Final = ("memory", "redis", "database", SEMANTIC, STALE, PIN)
"""Where an answer came from: a tier, or why it was served though no tier had it fresh."""


class Warmed(StrEnum):
    """What became of a question whose answer a new version was to give in advance. A closed set."""

    ANSWERED = "answered"
    HELD = "held"  # the answer was there, or somebody else is asking
    SKIPPED = "skipped"  # it needs its caller's key, or may no longer be answered from the cache
    REFUSED = "refused"  # by the quota of the Backend, or since that cools
    FAILED = "failed"  # no answer that may be kept
    DROPPED = "dropped"  # not asked: the provider had trouble with those before


@dataclass(slots=True)
class LeaseTally:
    """What became of the leases on flights of all processors, from the start of this one.

    `taken`, `held` by another one, `unavailable` when Redis did not say so in time, `lost` before the answer.
    """

    taken: int = 0
    held: int = 0
    unavailable: int = 0
    lost: int = 0


@dataclass(slots=True)
class CacheTally:
    """Grows from the start of the process. Money is in the currency of the Models' prices.

    `ages` has one number a bucket of `HIT_AGE_BOUNDS_S`; `would_…` is of the shadow mode.
    """

    hits: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SERVED_BY, 0))
    misses: int = 0
    ages: list[int] = field(default_factory=lambda: [0] * (len(HIT_AGE_BOUNDS_S) + 1))
    saved_prompt_tokens: int = 0
    saved_completion_tokens: int = 0
    saved_money: float = 0.0
    saved_seconds: float = 0.0
    refreshes_dropped: int = 0
    warmups: dict[Warmed, int] = field(default_factory=lambda: dict.fromkeys(Warmed, 0))
    semantic_explored: int = 0
    semantic_vetoed: int = 0
    semantic_would_serve: int = 0
    semantic_would_be_wrong: int = 0

    def hit(self, tier: str, answer: StoredAnswer, age_s: float, prices: Prices | None) -> None:
        """Count an answer that was served from `tier`, one of `SERVED_BY`."""
        self.hits[tier] += 1
        self.ages[bisect_left(HIT_AGE_BOUNDS_S, age_s)] += 1
        self.saved_prompt_tokens += answer.prompt_tokens
        self.saved_completion_tokens += answer.completion_tokens
        self.saved_seconds += answer.seconds
        if prices is not None:
            self.saved_money += (
                answer.prompt_tokens * prices.input_per_million
                + answer.completion_tokens * prices.output_per_million
            ) / 1_000_000

    def pinned(self) -> None:
        """Count a question that a Pin answers."""
        self.hits[PIN] += 1
        self.ages[0] += 1

    def missed(self) -> None:
        """Count a question that no tier had a fresh answer to."""
        self.misses += 1

    def rescued(self) -> None:
        """Take a miss back: a stale answer stood in for the provider, and is counted as a hit."""
        self.misses -= 1

    def refresh_dropped(self) -> None:
        """Count a stale answer that was served though no fresh one could be fetched: too many are already."""
        self.refreshes_dropped += 1

    def warmed_up(self, outcome: Warmed, questions: int = 1) -> None:
        """Count what became of questions that a new version was to answer in advance."""
        self.warmups[outcome] += questions

    def explored(self) -> None:
        """Count a similar answer that was held back, to be compared with the provider's."""
        self.semantic_explored += 1

    def vetoed(self) -> None:
        """Count a similar question that differs in what matters."""
        self.semantic_vetoed += 1

    def would_serve(self, *, wrong: bool | None = None) -> None:
        """Count what shadow mode would have served; `wrong`, once the provider's answer has been compared."""
        if wrong is None:
            self.semantic_would_serve += 1
        elif wrong:
            self.semantic_would_be_wrong += 1
