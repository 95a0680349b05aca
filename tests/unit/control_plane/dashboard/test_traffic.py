"""What goes through the mesh."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from control_plane.dashboard.rings import STEP_S, STEPS
from control_plane.dashboard.traffic import MAX_LINES, RATE_STEPS, Traffic
from control_plane.dashboard.views import Flow
from control_plane.push.sidecars import Told
from control_plane.push.views import TierStatistics, VersionStatistics
from ext_proc.contract.cache import CacheStatistics

WINDOW_S = RATE_STEPS * STEP_S


class Mesh:
    """Traffic with a clock that is set by hand, and sidecars that tell."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.traffic = Traffic(lambda: self.now_s)
        self.last: dict[str, Told] = {}

    def tells(self, sidecar: str = "a", **told: Any) -> None:
        """Have a sidecar tell this beside what it has told."""
        before = self.last.get(sidecar, Told())
        after = replace(before, **{"epoch": before.epoch or "e", **told})
        self.last[sidecar] = after
        self.traffic.told(before, after)

    def flow(self, *, whole: bool = True) -> Flow:
        """Return how it goes once this step is over."""
        self.now_s += STEP_S
        return self.traffic.flow(whole=whole)


@pytest.fixture
def mesh() -> Mesh:
    """Return one whose sidecars have told that they are there."""
    found = Mesh()
    for sidecar in ("a", "b"):
        found.tells(sidecar)
        found.tells(sidecar, cache=CacheStatistics(misses=1))
    return found


def version(calls: int, model: str = "m", name: str = "v", **counts: Any) -> VersionStatistics:
    """Return what a sidecar counted of a version."""
    return VersionStatistics(model, name, calls=calls, **counts)


def test_what_sidecars_tell_is_summed_up_by_version(mesh: Mesh) -> None:
    """Only what came since each told before."""
    mesh.tells("a", versions=(version(10, errors=1, input_tokens=5, duration={40: 9}),))
    mesh.tells("b", versions=(version(5, throttled=2, duration={60: 3}), version(1, "n")))
    mesh.tells("a", versions=(version(30, errors=1, input_tokens=20, duration={40: 29}),))
    flow = mesh.flow()
    rows = {(row.model, row.version): row for row in flow.models}
    assert rows.keys() == {("m", "v"), ("n", "v")}
    assert rows["m", "v"].recent_calls == 35
    assert rows["m", "v"].calls == pytest.approx(35 / WINDOW_S)
    assert rows["m", "v"].errors == pytest.approx(3 / 35)
    assert rows["m", "v"].latency.p50 == pytest.approx(1.1**40, rel=0.1)
    assert rows["m", "v"].latency.p95 == pytest.approx(1.1**60, rel=0.1)
    assert flow.rates.calls == pytest.approx(36 / WINDOW_S)
    assert flow.sums.calls == 36
    assert flow.rates.input_tokens == pytest.approx(20 / WINDOW_S)


def test_what_was_counted_before_anybody_listened_is_where_it_begins() -> None:
    """A control plane that starts anew sees no peak."""
    mesh = Mesh()
    mesh.tells("a", versions=(version(1_000_000),), cache=CacheStatistics(hits=500_000))
    mesh.tells("a", versions=(version(1_000_003),), cache=CacheStatistics(hits=500_002))
    assert (mesh.flow().sums.calls, mesh.flow().sums.hits) == (3, 2)


def test_a_sidecar_that_counts_anew_is_counted_whole(mesh: Mesh) -> None:
    """Its epoch is another, or its cache's numbers went back."""
    mesh.tells("a", versions=(version(10),), cache=CacheStatistics(hits=10, misses=1))
    mesh.tells("a", epoch="f", versions=(version(4),), cache=CacheStatistics(hits=1))
    flow = mesh.flow()
    assert (flow.sums.calls, flow.sums.hits) == (14, 11)


def test_versions_that_come_and_go_are_told_apart(mesh: Mesh) -> None:
    """By their names, not by their places."""
    mesh.tells("a", versions=(version(1, "m"), version(1, "n")))
    mesh.tells("a", versions=(version(3, "l"), version(2, "n")))
    assert {row.model: row.recent_calls for row in mesh.flow().models} == {"l": 3, "m": 1, "n": 2}


def test_tiers_are_told_with_every_request(mesh: Mesh) -> None:
    """And callers without one."""
    mesh.tells("a", tiers=(TierStatistics("", 2), TierStatistics("gold", 30, 3, 1, 600)))
    mesh.tells("b", tiers=(TierStatistics("gold", 15),))
    rows = {row.tier: row for row in mesh.flow().tiers}
    assert rows.keys() == {"", "gold"}
    assert rows["gold"].requests == pytest.approx(45 / WINDOW_S)
    assert rows["gold"].limited == pytest.approx(3 / WINDOW_S)
    assert rows["gold"].tokens == pytest.approx(600 / WINDOW_S)


def test_the_cache_counts_as_requests_and_saves(mesh: Mesh) -> None:
    """A hit is a request that no provider saw."""
    mesh.tells("a", versions=(version(5),))
    mesh.tells(
        "a", cache=CacheStatistics(hits=10, misses=6, saved_cost_micros=2_500_000, saved_prompt_tokens=7)
    )
    flow = mesh.flow()
    assert flow.sums.requests == 15
    assert flow.sums.misses == 5
    assert (flow.sums.saved_cost, flow.sums.saved_tokens) == (2.5, 7)


def test_a_series_has_a_place_for_each_step(mesh: Mesh) -> None:
    """Quantiles are None where nothing was counted; the next one continues where the last ended."""
    mesh.tells("a", versions=(version(30, duration={40: 30}, first_byte={20: 30}),))
    whole = mesh.flow().series
    assert len(whole.requests) == len(whole.latency_p95) == len(whole.ttft_p50) == STEPS
    assert whole.requests[-1] == pytest.approx(30 / WINDOW_S)
    assert whole.requests[-2] is None
    assert whole.latency_p50[-1] == pytest.approx(1.1**40, rel=0.1)
    assert whole.ttft_p95[-1] == pytest.approx(1.1**20, rel=0.1)
    assert whole.latency_p50[-2] is None
    later = mesh.flow(whole=False).series
    assert later.end == whole.end + 1
    assert len(later.requests) == len(later.ttft_p50) == RATE_STEPS
    assert later.requests[-2] == whole.requests[-1]


def test_what_is_over_is_forgotten(mesh: Mesh) -> None:
    """Rates at once, the rest after fifteen minutes."""
    mesh.tells("a", versions=(version(30, duration={40: 30}),), tiers=(TierStatistics("gold", 1),))
    mesh.now_s += WINDOW_S + 3 * 60
    flow = mesh.flow()
    assert flow.rates.calls == 0
    assert flow.latency.p50 is None
    assert flow.sums.calls == 30
    mesh.now_s += STEPS * STEP_S
    flow = mesh.flow()
    assert (flow.sums.calls, flow.models, flow.tiers) == (0, [], [])


def test_memory_is_bounded(mesh: Mesh) -> None:
    """Beyond all reason in number, versions count in the totals only."""
    mesh.tells("a", versions=tuple(version(1, f"m{index:05}") for index in range(MAX_LINES + 5)))
    flow = mesh.flow()
    assert len(flow.models) == MAX_LINES
    assert flow.sums.calls == MAX_LINES + 5
