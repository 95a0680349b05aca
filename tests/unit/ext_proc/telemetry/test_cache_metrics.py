"""The cache's numbers as series."""

from __future__ import annotations

import asyncio
import contextlib

from prometheus_client import CollectorRegistry

from ext_proc.answers import StoredAnswer
from ext_proc.cache_view import Held
from ext_proc.tally import CacheTally, LeaseTally, Warmed
from ext_proc.telemetry.cache_metrics import CacheMetrics

ANSWER = StoredAnswer(b"{}", "t", "m", "v", 0.0, 9.0, prompt_tokens=3, completion_tokens=4, seconds=1.5)


def test_series_grow_by_what_the_tally_grew() -> None:
    """Shown twice, nothing counts twice; a gauge says how full a tier is."""
    registry, tally, leases = CollectorRegistry(), CacheTally(), LeaseTally()
    metrics = CacheMetrics(
        tally, lambda: {"memory": Held(2, 900), "redis": Held(failures=3, dropped=4)}, registry, leases
    )
    for shown in (1, 2):
        tally.hit("memory", ANSWER, 5.0, None)
        tally.missed()
        tally.refresh_dropped()
        tally.warmed_up(Warmed.HELD)
        leases.lost += 1
        for _ in range(2):
            metrics.show()
        read = registry.get_sample_value
        assert read("outrigger_cache_hits_total", {"tier": "memory"}) == shown
        assert read("outrigger_cache_misses_total") == shown
        assert read("outrigger_cache_hit_ages_total", {"up_to": "10"}) == shown
        assert read("outrigger_cache_saved_tokens_total", {"kind": "completion"}) == 4 * shown
        assert read("outrigger_cache_saved_seconds_total") == 1.5 * shown
        assert read("outrigger_cache_refreshes_dropped_total") == shown
        assert read("outrigger_cache_warmups_total", {"outcome": "held"}) == shown
        assert read("outrigger_cache_leases_total", {"outcome": "lost"}) == shown
    assert read("outrigger_cache_entries", {"tier": "memory"}) == 2
    assert read("outrigger_cache_bytes", {"tier": "memory"}) == 900
    assert read("outrigger_cache_failures_total", {"tier": "redis"}) == 3
    assert read("outrigger_cache_dropped_total", {"tier": "redis"}) == 4


async def test_the_last_numbers_are_shown_at_the_end() -> None:
    """What came within the last second is not lost."""
    registry, tally = CollectorRegistry(), CacheTally()
    running = asyncio.create_task(CacheMetrics(tally, dict, registry).run())
    await asyncio.sleep(0)
    tally.missed()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert registry.get_sample_value("outrigger_cache_misses_total") == 1
