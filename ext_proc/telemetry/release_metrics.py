"""What versions of Releases were compared on, as series of this process; see `cache_metrics` for how."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter

from ext_proc.release_tally import Mirrored, ReleaseTally

EVERY_S: Final = 1.0
AGREED: Final = "agreed"
DISAGREED: Final = "disagreed"


class ReleaseMetrics:
    """Shows a tally.

    Args:
        tally: what grows.
        registry: where the series are registered.
    """

    def __init__(self, tally: ReleaseTally, registry: CollectorRegistry) -> None:
        self._tally = tally
        mirrored = Counter(
            "outrigger_release_mirrors",
            "Calls that were to be asked of a new version too, by what became of them.",
            ["outcome"],
            registry=registry,
        )
        cached = Counter(
            "outrigger_release_cache_comparisons",
            "Answers whose question the other version of a Release had answered before.",
            ["result"],
            registry=registry,
        )
        self._series: dict[str, tuple[Callable[[float], Any], float]] = {
            **{outcome.value: (mirrored.labels(outcome.value).inc, 0.0) for outcome in Mirrored},
            **{result: (cached.labels(result).inc, 0.0) for result in (AGREED, DISAGREED)},
        }

    def show(self) -> None:
        """Write what the tally grew by since the last time."""
        tally = self._tally
        totals = {outcome.value: number for outcome, number in tally.mirrored.items()}
        totals[AGREED] = tally.cache_compared - tally.cache_disagreed
        totals[DISAGREED] = tally.cache_disagreed
        for name, total in totals.items():
            grow, shown = self._series[name]
            if total > shown:
                grow(total - shown)
                self._series[name] = (grow, total)

    async def run(self) -> None:
        """Show the numbers every second until cancelled, and once more then."""
        try:
            while True:
                self.show()
                await asyncio.sleep(EVERY_S)
        finally:
            self.show()
