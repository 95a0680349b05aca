"""What is seen of a sidecar's cache: its statistics, and the answers it keeps when it is asked for them.

Processors tell these to their agent, agents to the control plane; how they travel is `cache_wire`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain, zip_longest
from typing import Final

SHARED_TIERS: Final = frozenset({"redis", "database"})
"""The tiers that processors have in common; any other is each one's own."""

HIT_AGE_BOUNDS_S: Final = (1.0, 10.0, 60.0, 600.0, 3_600.0, 21_600.0, 86_400.0)
"""Upper bounds of the buckets of a hit's age; what is older counts in one more."""


@dataclass(frozen=True, slots=True)
class TierStatistics:
    """One tier, or another reason to answer (`semantic`, `stale`, `pin`).

    `hits` and `misses` are since the start; `entries` and `size_bytes` now, 0 where nobody knows.
    """

    tier: str
    hits: int = 0
    misses: int = 0
    entries: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SemanticStatistics:
    """Similar questions, since the start.

    `served`: answered from another's answer. `explored`: asked again to learn. `vetoed`: held back by a
    number, a name or a negation that differs. Shadow mode would have served `would_serve`, of them
    `would_be_wrong` wrongly.
    """

    served: int = 0
    explored: int = 0
    vetoed: int = 0
    would_serve: int = 0
    would_be_wrong: int = 0


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """What a cache did since its start, and holds now.

    `hits` and `misses` are of requests, whatever the tier. `saved_cost_micros` is in millionths of what
    prices are in. `hit_ages` counts hits by their age: one number for each of `HIT_AGE_BOUNDS_S`, and one for
    the rest; () counts nothing.
    """

    tiers: tuple[TierStatistics, ...] = ()
    hits: int = 0
    misses: int = 0
    saved_prompt_tokens: int = 0
    saved_completion_tokens: int = 0
    saved_cost_micros: int = 0
    saved_ms: int = 0
    hit_ages: tuple[int, ...] = ()
    semantic: SemanticStatistics = SemanticStatistics()

    def of_the_past(self) -> CacheStatistics:
        """Return what still counts when the cache itself is gone."""
        tiers = tuple(replace(tier, entries=0, size_bytes=0) for tier in self.tiers)
        return replace(self, tiers=tiers)


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One answer that is kept.

    `key` is 64 hexadecimal digits, `tenant` the partition, `size_bytes` what its body takes. `age_s` counts
    back from now; `fresh_s` and `expires_s` are what is left, `fresh_s` negative once it is stale. `body` is
    None where it was not asked for, or is too large to be told.
    """

    key: str
    tier: str
    model: str
    version: str
    tenant: str
    age_s: float
    expires_s: float
    fresh_s: float = 0.0
    size_bytes: int = 0
    hits: int = 0
    content_type: str = ""
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class CacheQuestion:
    """Which answers are asked for: at most `limit`, in the order of their keys, from behind `after` on.

    What is None or "" narrows nothing. `bodies`: with what was answered.
    """

    key_prefix: str = ""
    model: str | None = None
    tenant: str | None = None
    after: str = ""
    limit: int = 100
    bodies: bool = False

    def asks_for(self, key: str, model: str, tenant: str) -> bool:
        """Say whether an answer with these is meant."""
        return (
            key > self.after
            and key.startswith(self.key_prefix)
            and self.model in (None, model)
            and self.tenant in (None, tenant)
        )


@dataclass(frozen=True, slots=True)
class CacheAnswer:
    """The answers that are kept, sorted by key; `more`: there are others behind the last of them."""

    entries: tuple[CacheEntry, ...] = ()
    more: bool = False


def first_entries(entries: Iterable[CacheEntry], limit: int) -> CacheAnswer:
    """Return the first `limit` of `entries` in the order of their keys."""
    found = sorted(entries, key=lambda entry: entry.key)
    return CacheAnswer(tuple(found[:limit]), len(found) > limit)


def gathered(answers: Sequence[CacheAnswer], limit: int) -> CacheAnswer:
    """Return one answer for several to the same question: what several keep is in it once.

    It goes only as far as each of them goes: behind the last entry of one that has more, others may follow.
    """
    ends = [answer.entries[-1].key for answer in answers if answer.more and answer.entries]
    end = min(ends, default=None)
    found: dict[str, CacheEntry] = {}
    left = False
    for entry in chain.from_iterable(answer.entries for answer in answers):
        if end is not None and entry.key > end:
            left = True
            continue
        known = found.get(entry.key)
        found[entry.key] = entry if known is None else _both(known, entry)
    whole = first_entries(found.values(), limit)
    return replace(whole, more=whole.more or left or any(answer.more for answer in answers))


def _both(one: CacheEntry, other: CacheEntry) -> CacheEntry:
    newer, older = (one, other) if one.age_s <= other.age_s else (other, one)
    body = newer.body if newer.body is not None else older.body
    return replace(newer, hits=one.hits + other.hits, body=body)


def merged_statistics(parts: Iterable[CacheStatistics]) -> CacheStatistics:
    """Return the sum of `parts`. Of a tier that is shared each part tells the size of all of it."""
    total = CacheStatistics()
    for part in parts:
        total = CacheStatistics(
            tiers=_tiers(total.tiers, part.tiers),
            hits=total.hits + part.hits,
            misses=total.misses + part.misses,
            saved_prompt_tokens=total.saved_prompt_tokens + part.saved_prompt_tokens,
            saved_completion_tokens=total.saved_completion_tokens + part.saved_completion_tokens,
            saved_cost_micros=total.saved_cost_micros + part.saved_cost_micros,
            saved_ms=total.saved_ms + part.saved_ms,
            hit_ages=tuple(map(sum, zip_longest(total.hit_ages, part.hit_ages, fillvalue=0))),
            semantic=_semantic(total.semantic, part.semantic),
        )
    return total


def _tiers(
    these: tuple[TierStatistics, ...], those: tuple[TierStatistics, ...]
) -> tuple[TierStatistics, ...]:
    found = {tier.tier: tier for tier in these}
    for tier in those:
        known = found.get(tier.tier, TierStatistics(tier.tier))
        is_shared = tier.tier in SHARED_TIERS
        found[tier.tier] = TierStatistics(
            tier.tier,
            known.hits + tier.hits,
            known.misses + tier.misses,
            max(known.entries, tier.entries) if is_shared else known.entries + tier.entries,
            max(known.size_bytes, tier.size_bytes) if is_shared else known.size_bytes + tier.size_bytes,
        )
    return tuple(found.values())


def _semantic(one: SemanticStatistics, other: SemanticStatistics) -> SemanticStatistics:
    names = [item.name for item in fields(SemanticStatistics)]
    return SemanticStatistics(**{name: getattr(one, name) + getattr(other, name) for name in names})
