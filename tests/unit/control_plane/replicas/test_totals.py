"""What a replica's sidecars counted together."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.push.sidecars import Told
from control_plane.push.views import TierStatistics, VersionStatistics
from control_plane.replicas.totals import Totals
from ext_proc.contract.cache import CacheStatistics
from ext_proc.contract.uses import Use


def told(calls: int, *, epoch: str = "e", hits: int = 1) -> Told:
    """Return what a sidecar tells that made so many calls."""
    return Told(
        epoch=epoch,
        versions=(VersionStatistics("m", "v", calls=calls, output_tokens=2 * calls, duration={3: calls}),),
        tiers=(TierStatistics("gold", requests=calls, tokens=calls),),
        cache=CacheStatistics(hits=hits, misses=calls),
    )


def test_only_what_comes_while_it_listens_counts() -> None:
    """A sidecar that comes has counted before, which others have told."""
    totals = Totals("me")
    totals.told(Told(), told(100))
    assert not totals.changed
    totals.told(told(100), told(103))
    assert totals.changed
    total = totals.total()
    assert not totals.changed
    assert total.versions == (VersionStatistics("m", "v", calls=3, output_tokens=6, duration={3: 3}),)
    assert total.tiers == (TierStatistics("gold", requests=3, tokens=3),)
    assert (total.cache.hits, total.cache.misses) == (0, 3)
    assert total.epoch == "me"


def test_a_restarted_sidecar_counts_from_nothing() -> None:
    """Nothing of what it counts then is lost, nor taken away."""
    totals = Totals("me")
    totals.told(told(5, hits=9), told(2, epoch="f", hits=1))
    assert [one.calls for one in totals.total().versions] == [2]
    assert totals.total().cache.hits == 1


def test_what_did_not_change_is_no_news() -> None:
    """Nobody is told of it."""
    totals = Totals("me")
    same = told(5)
    totals.told(same, replace(same, envoy_version="1"))
    totals.told(same, told(5))
    assert not totals.changed


def test_what_is_used_of_limits_is_that_of_now() -> None:
    """It comes and goes with the sidecars."""
    totals = Totals("me")
    one = Told(uses={"model:m": Use(3)})
    totals.told(Told(), one)
    assert totals.changed
    assert totals.total().uses == {"model:m": Use(3)}
    totals.told(one, Told())
    assert totals.total().uses == {}


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=30))
def test_the_sum_is_that_of_every_sidecar(more: list[tuple[int, int]]) -> None:
    """However their reports are mixed."""
    totals, last = Totals("me"), [told(0)] * 4
    for sidecar, calls in more:
        after = told(last[sidecar].versions[0].calls + calls)
        totals.told(last[sidecar], after)
        last[sidecar] = after
    found = sum(one.calls for one in totals.total().versions)
    assert found == sum(one.versions[0].calls for one in last)
