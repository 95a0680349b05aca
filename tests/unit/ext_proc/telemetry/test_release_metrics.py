"""Comparisons of versions as series."""

from __future__ import annotations

import asyncio
import contextlib

from prometheus_client import CollectorRegistry

from ext_proc.contract.comparisons import Comparison, Likeness
from ext_proc.release_tally import Mirrored, ReleaseTally
from ext_proc.telemetry.release_metrics import ReleaseMetrics


async def test_series_grow_by_what_the_tally_grew() -> None:
    """Every outcome is there from the start; the last numbers are shown at the end."""
    registry, tally = CollectorRegistry(), ReleaseTally()
    showing = asyncio.create_task(ReleaseMetrics(tally, registry).run())
    await asyncio.sleep(0)
    mirrors = "outrigger_release_mirrors_total"
    assert all(registry.get_sample_value(mirrors, {"outcome": one}) == 0 for one in Mirrored)
    tally.count(Mirrored.ANSWERED)
    tally.add("r", Comparison(likeness=Likeness(cache_compared=3, cache_disagreed=1)))
    showing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await showing
    assert registry.get_sample_value(mirrors, {"outcome": "answered"}) == 1
    cached = "outrigger_release_cache_comparisons_total"
    assert [registry.get_sample_value(cached, {"result": one}) for one in ("agreed", "disagreed")] == [2, 1]
