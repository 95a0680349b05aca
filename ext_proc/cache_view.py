"""The cache of one processor, to be looked at from outside: what it did, and what it keeps in memory."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, Protocol

from ext_proc.answers import StoredAnswer
from ext_proc.contract.cache import (
    CacheAnswer,
    CacheEntry,
    CacheQuestion,
    CacheStatistics,
    SemanticStatistics,
    TierStatistics,
    first_entries,
)
from ext_proc.tally import SEMANTIC, CacheTally
from ext_proc.tiers import MEMORY

TOLD_AT_MOST_BYTES: Final = 1024 * 1024
"""A longer body is not told: it would hold up the stream that policy comes by."""


class Kept(Protocol):
    """What is kept in memory."""

    def items(self) -> Iterator[tuple[bytes, StoredAnswer]]:
        """Yield what there is now."""
        ...

    def hits(self, key: bytes) -> int:
        """Return how often the answer under `key` was a hit."""
        ...


@dataclass(frozen=True, slots=True)
class Held:
    """One tier as this process knows it: what it holds (0 where nobody knows), and how it did."""

    entries: int = 0
    size_bytes: int = 0
    misses: int = 0
    failures: int = 0
    dropped: int = 0


class CacheLook:
    """Looks at a cache.

    Args:
        tally: what it did.
        memory: what it keeps.
        held: each tier that is in use.
        clock: the answers' clock, in seconds.
    """

    def __init__(
        self,
        tally: CacheTally,
        memory: Kept,
        held: Callable[[], Mapping[str, Held]],
        clock: Callable[[], float],
    ) -> None:
        self._tally = tally
        self._memory = memory
        self._held = held
        self._clock = clock

    def statistics(self) -> CacheStatistics:
        """Return what it did since the process began, and holds now."""
        tally, held = self._tally, self._held()
        tiers = [
            TierStatistics(tier, hits, known.misses, known.entries, known.size_bytes)
            for tier, hits in tally.hits.items()
            if (known := held.get(tier, Held())) and (hits or tier in held)
        ]
        semantic = SemanticStatistics(
            served=tally.hits[SEMANTIC],
            explored=tally.semantic_explored,
            vetoed=tally.semantic_vetoed,
            would_serve=tally.semantic_would_serve,
            would_be_wrong=tally.semantic_would_be_wrong,
        )
        return CacheStatistics(
            tiers=tuple(tiers),
            hits=sum(tally.hits.values()),
            misses=tally.misses,
            saved_prompt_tokens=tally.saved_prompt_tokens,
            saved_completion_tokens=tally.saved_completion_tokens,
            saved_cost_micros=round(tally.saved_money * 1_000_000),
            saved_ms=round(tally.saved_seconds * 1_000),
            hit_ages=tuple(tally.ages),
            semantic=semantic,
        )

    def entries(self, question: CacheQuestion) -> CacheAnswer:
        """Return what memory keeps of what `question` asks for."""
        now = self._clock()
        meant = (
            (key, answer)
            for key, answer in self._memory.items()
            if question.asks_for(key.hex(), answer.model, answer.partition)
        )
        # One more than is asked for says that there are others.
        first = heapq.nsmallest(question.limit + 1, meant, key=itemgetter(0))
        found = (
            _entry(key, answer, now, self._memory.hits(key), bodies=question.bodies) for key, answer in first
        )
        return first_entries(found, question.limit)


def _entry(key: bytes, answer: StoredAnswer, now: float, hits: int, *, bodies: bool) -> CacheEntry:
    return CacheEntry(
        key=key.hex(),
        tier=MEMORY,
        model=answer.model,
        version=answer.version,
        tenant=answer.partition,
        age_s=max(now - answer.stored_at, 0.0),
        expires_s=answer.expires_at - now,
        fresh_s=min(answer.fresh_until, answer.expires_at) - now,
        size_bytes=len(answer.body),
        hits=hits,
        content_type=answer.content_type,
        body=answer.body if bodies and len(answer.body) <= TOLD_AT_MOST_BYTES else None,
    )
