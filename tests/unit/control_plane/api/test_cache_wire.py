"""What is seen of caches, as it is answered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from control_plane.api.cache_wire import body_wire, entry_wire, statistics_wire
from control_plane.push.views import KeptAnswer
from ext_proc.contract.cache import HIT_AGE_BOUNDS_S, CacheEntry, CacheStatistics, TierStatistics


def test_ratios_are_shares_of_all_questions() -> None:
    """Those of the tiers sum up to the whole; before the first question there is none."""
    tiers = (TierStatistics("memory", 30, 70, 5, 50), TierStatistics("redis", 10, 60))
    shown = statistics_wire(CacheStatistics(tiers, hits=40, misses=60))
    assert shown["hitRatio"] == 0.4
    assert [tier["hitRatio"] for tier in shown["tiers"]] == [0.3, 0.1]
    assert shown["tiers"][0] == {
        "tier": "memory",
        "hits": 30,
        "misses": 70,
        "hitRatio": 0.3,
        "entries": 5,
        "bytes": 50,
    }
    assert statistics_wire(CacheStatistics())["hitRatio"] is None


def test_what_was_saved_is_in_whole_units() -> None:
    """Money in the currency of the prices, time in seconds."""
    shown = statistics_wire(CacheStatistics((), 1, 1, 5, 6, 2_500_000, 1_250))
    assert shown["saved"] == {"promptTokens": 5, "completionTokens": 6, "cost": 2.5, "seconds": 1.25}


def test_ages_have_their_bounds() -> None:
    """The last has none."""
    counts = tuple(range(len(HIT_AGE_BOUNDS_S) + 1))
    ages = statistics_wire(CacheStatistics(hit_ages=counts))["hitAges"]
    assert [age["upToSeconds"] for age in ages] == [*HIT_AGE_BOUNDS_S, None]
    assert [age["hits"] for age in ages] == list(counts)


def test_an_entry_is_shown_without_its_answer() -> None:
    """Stale is what is no longer fresh."""
    entry = CacheEntry("ab", "memory", "m", "v", "tenant:a", 1.23456, 9.0, 4.0, 10, 2, "t", b"secret")
    shown = entry_wire(KeptAnswer(entry, ("one",)))
    assert (shown["ageSeconds"], shown["stale"], shown["sidecars"]) == (1.235, False, ("one",))
    assert "secret" not in f"{shown}"
    assert entry_wire(KeptAnswer(replace(entry, fresh_s=-1.0), ()))["stale"]


@pytest.mark.parametrize(
    ("body", "shown"),
    [(b'{"a": [1]}', {"a": [1]}), (b"plain \xff", "plain �"), (b"", ""), (None, None)],
    ids=["json", "text", "nothing", "too large"],
)
def test_a_body_is_shown_as_what_it_is(body: bytes | None, shown: object) -> None:
    """JSON as JSON, so that it can be read and taken apart."""
    assert body_wire(body) == shown
