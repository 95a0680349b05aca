"""The cache's numbers as series of this process.

The tally grows on the hot path; what it grew by is written into the metric files once in a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from ext_proc.cache_view import Held
from ext_proc.contract.cache import HIT_AGE_BOUNDS_S
from ext_proc.tally import SERVED_BY, CacheTally, LeaseTally, Warmed
from ext_proc.tiers import DATABASE, REDIS

EVERY_S: Final = 1.0


class CacheMetrics:
    """Shows a tally and how full the tiers are.

    Args:
        tally: what grows.
        held: each tier that is in use.
        registry: where the series are registered.
        leases: of flights of all processors; they stay at zero without Redis.
    """

    def __init__(
        self,
        tally: CacheTally,
        held: Callable[[], Mapping[str, Held]],
        registry: CollectorRegistry,
        leases: LeaseTally | None = None,
    ) -> None:
        self._tally = tally
        self._leases = leases if leases is not None else LeaseTally()
        self._held = held
        self._counters: dict[tuple[str, str], Counter] = {}
        self._shown: dict[tuple[str, str], float] = {}
        self._add(registry, "hits", "Answers served without a model call, by where from.", "tier", SERVED_BY)
        self._add(registry, "misses", "Questions that no tier had an answer to.")
        bounds = [*(f"{bound:g}" for bound in HIT_AGE_BOUNDS_S), "+Inf"]
        self._add(
            registry,
            "hit_ages",
            "Hits by their age: up to so many seconds, and more than the bound below.",
            "up_to",
            bounds,
        )
        kinds = ("prompt", "completion")
        self._add(registry, "saved_tokens", "Tokens that hits spared.", "kind", kinds)
        self._add(registry, "saved_cost", "What hits spared, by the Models' prices.")
        self._add(registry, "saved_seconds", "How long the spared calls took when they were made.")
        self._add(registry, "refreshes_dropped", "Stale answers that were served with no fresh one fetched.")
        warmups = [outcome.value for outcome in Warmed]
        self._add(registry, "warmups", "Questions asked of new versions in advance.", "outcome", warmups)
        leases_were = ("taken", "held", "unavailable", "lost")
        self._add(registry, "leases", "Leads of flights, asked of Redis.", "outcome", leases_were)
        outcomes = ("explored", "vetoed", "would_serve", "would_be_wrong")
        self._add(registry, "semantic", "Similar answers that were not served.", "outcome", outcomes)
        shared = (REDIS, DATABASE)
        self._add(registry, "failures", "Calls of a tier that failed or came too late.", "tier", shared)
        self._add(registry, "dropped", "Answers that a tier could not take.", "tier", shared)
        self._entries = self._gauge(registry, "entries", "Answers held in this sidecar, by tier.")
        self._bytes = self._gauge(registry, "bytes", "Bytes that they take.")

    def show(self) -> None:
        """Write what the tally grew by since the last time."""
        for place, total in self._totals().items():
            self._grow(place, total)
        for tier, held in self._held().items():
            self._entries.labels(tier).set(held.entries)
            self._bytes.labels(tier).set(held.size_bytes)
            self._grow(("failures", tier), held.failures)
            self._grow(("dropped", tier), held.dropped)

    def _grow(self, place: tuple[str, str], total: float) -> None:
        grown = total - self._shown.get(place, 0)
        if grown > 0:
            self._counters[place].inc(grown)
            self._shown[place] = total

    async def run(self) -> None:
        """Show the numbers every second until cancelled, and once more then."""
        try:
            while True:
                self.show()
                await asyncio.sleep(EVERY_S)
        finally:
            self.show()

    def _totals(self) -> Mapping[tuple[str, str], float]:
        tally = self._tally
        bounds = [*(f"{bound:g}" for bound in HIT_AGE_BOUNDS_S), "+Inf"]
        return {
            **{("hits", tier): number for tier, number in tally.hits.items()},
            ("misses", ""): tally.misses,
            **{("hit_ages", bound): number for bound, number in zip(bounds, tally.ages, strict=True)},
            ("saved_tokens", "prompt"): tally.saved_prompt_tokens,
            ("saved_tokens", "completion"): tally.saved_completion_tokens,
            ("saved_cost", ""): tally.saved_money,
            ("saved_seconds", ""): tally.saved_seconds,
            ("refreshes_dropped", ""): tally.refreshes_dropped,
            **{("warmups", outcome.value): number for outcome, number in tally.warmups.items()},
            ("leases", "taken"): self._leases.taken,
            ("leases", "held"): self._leases.held,
            ("leases", "unavailable"): self._leases.unavailable,
            ("leases", "lost"): self._leases.lost,
            ("semantic", "explored"): tally.semantic_explored,
            ("semantic", "vetoed"): tally.semantic_vetoed,
            ("semantic", "would_serve"): tally.semantic_would_serve,
            ("semantic", "would_be_wrong"): tally.semantic_would_be_wrong,
        }

    def _add(
        self,
        registry: CollectorRegistry,
        name: str,
        documentation: str,
        label: str = "",
        values: tuple[str, ...] | list[str] = ("",),
    ) -> None:
        labels = [label] if label else []
        counter = Counter(f"outrigger_cache_{name}", documentation, labels, registry=registry)
        for value in values:
            self._counters[name, value] = counter.labels(value) if label else counter

    def _gauge(self, registry: CollectorRegistry, name: str, documentation: str) -> Gauge:
        return Gauge(
            f"outrigger_cache_{name}",
            documentation,
            ["tier"],
            registry=registry,
            multiprocess_mode="livesum",
        )
