"""The cache as it is seen from outside."""

from __future__ import annotations

from ext_proc.answers import StoredAnswer
from ext_proc.cache_view import TOLD_AT_MOST_BYTES, CacheLook, Held
from ext_proc.contract.cache import CacheQuestion, TierStatistics
from ext_proc.contract.snapshot import Prices
from ext_proc.stores.memory import MemoryStore
from ext_proc.tally import CacheTally


def answer(body: bytes = b"{}", model: str = "m", partition: str = "tenant:a") -> StoredAnswer:
    """Return an answer that was stored at 90, is fresh until 120 and kept until 150."""
    return StoredAnswer(
        body,
        "application/json",
        model,
        "v1",
        90.0,
        150.0,
        prompt_tokens=1_000,
        completion_tokens=500,
        seconds=2.0,
        fresh_until=120.0,
        partition=partition,
    )


def look(tally: CacheTally, memory: MemoryStore) -> CacheLook:
    """Look at a cache at the time 100."""
    return CacheLook(tally, memory, lambda: {"memory": Held(len(memory), 7, 3)}, lambda: 100.0)


def test_statistics_say_what_was_saved() -> None:
    """In the units of the contract, with the tiers that did something or hold something."""
    tally, memory = CacheTally(), MemoryStore(10, 10_000_000, lambda: 100.0)
    tally.hit("redis", answer(), 5.0, Prices(1.0, 2.0))
    tally.hit("semantic", answer(), 5.0, None)
    tally.missed()
    told = look(tally, memory).statistics()
    assert (told.hits, told.misses, told.semantic.served) == (2, 1, 1)
    assert (told.saved_prompt_tokens, told.saved_completion_tokens) == (2_000, 1_000)
    assert (told.saved_cost_micros, told.saved_ms) == (2_000, 4_000)
    assert sum(told.hit_ages) == 2
    assert told.tiers == (
        TierStatistics("memory", 0, 3, 0, 7),
        TierStatistics("redis", 1),
        TierStatistics("semantic", 1),
    )


def test_entries_are_told_without_their_bodies() -> None:
    """Unless they are asked for, and not those that are long."""
    memory = MemoryStore(10, 10_000_000, lambda: 100.0)
    memory.put(b"\x01" * 32, answer())
    memory.get(b"\x01" * 32)
    memory.put(b"\x02" * 32, answer(b"x" * (TOLD_AT_MOST_BYTES + 1), model="other"))
    seen = look(CacheTally(), memory)
    first, second = seen.entries(CacheQuestion()).entries
    assert (first.key, first.body, first.size_bytes, first.hits) == ("01" * 32, None, 2, 1)
    assert (first.age_s, first.fresh_s, first.expires_s) == (10.0, 20.0, 50.0)
    assert (second.model, second.tenant) == ("other", "tenant:a")
    told = seen.entries(CacheQuestion(bodies=True)).entries
    assert [entry.body for entry in told] == [b"{}", None]


def test_a_question_narrows() -> None:
    """By model, tenant, prefix and number."""
    memory = MemoryStore(10, 10_000_000, lambda: 100.0)
    for number in range(5):
        memory.put(bytes([number]) * 32, answer(partition=f"tenant:{number % 2}"))
    seen = look(CacheTally(), memory)
    assert len(seen.entries(CacheQuestion(tenant="tenant:1")).entries) == 2
    assert [entry.key[:2] for entry in seen.entries(CacheQuestion(key_prefix="04")).entries] == ["04"]
    some = seen.entries(CacheQuestion(limit=2))
    assert (len(some.entries), some.more) == (2, True)
