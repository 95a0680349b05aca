"""The tiers as one store: who is asked, who is filled, and what a purge voids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from ext_proc.answers import Clocks, StoredAnswer
from ext_proc.contract.snapshot import Purge
from ext_proc.stores.memory import MemoryStore
from ext_proc.tiers import DATABASE, IN_A_THREAD_FROM_BYTES, MEMORY, REDIS, Found, Tiers

KEY = bytes(range(32))
# The day began 1000 seconds before this process's clock.
HERE = Clocks(wall=1_050.0, own=50.0)
ANSWER = StoredAnswer(
    *(b"{}", "application/json", "m", "v1"), stored_at=40.0, expires_at=90.0, seconds=5.0, partition="team-a"
)
ASKED_AT = 1_035.0


@dataclass
class Shared:
    """A store that processors share, in a dictionary; it counts what it is asked."""

    answers: dict[bytes, StoredAnswer] = field(default_factory=dict)
    reads: int = 0

    async def get(self, key: bytes) -> StoredAnswer | None:
        """Return what is under `key`."""
        self.reads += 1
        return self.answers.get(key)

    def put(self, key: bytes, answer: StoredAnswer) -> None:
        """Keep it at once."""
        self.answers[key] = answer


class Bench:
    """Three tiers and what is in them."""

    def __init__(self, default: Sequence[str] | None = None) -> None:
        self.memory = MemoryStore(10, 100_000, lambda: HERE.own)
        self.redis, self.database = Shared(), Shared()
        self.tiers = Tiers(self.memory, {REDIS: self.redis, DATABASE: self.database}, lambda: HERE, default)

    def have(self) -> list[str]:
        """Return the names of the tiers that have the answer."""
        return [
            *([MEMORY] if self.memory.get(KEY) else []),
            *([REDIS] if KEY in self.redis.answers else []),
            *([DATABASE] if KEY in self.database.answers else []),
        ]


@pytest.fixture
def bench() -> Bench:
    """Empty tiers."""
    return Bench()


async def test_an_answer_is_kept_in_all_tiers_and_found_in_the_nearest(bench: Bench) -> None:
    """No other one is asked."""
    assert bench.tiers.put(KEY, ANSWER, None)
    assert bench.have() == [MEMORY, REDIS, DATABASE]
    assert await bench.tiers.find(KEY, None) == Found(ANSWER, MEMORY)
    assert bench.redis.reads == bench.database.reads == 0


async def test_what_a_far_tier_has_fills_those_above(bench: Bench) -> None:
    """The next time it is near."""
    bench.database.put(KEY, ANSWER)
    assert await bench.tiers.find(KEY, None) == Found(ANSWER, DATABASE)
    assert bench.have() == [MEMORY, REDIS, DATABASE]
    assert bench.tiers.in_memory(KEY, None) is ANSWER


@pytest.mark.parametrize("size", [2, IN_A_THREAD_FROM_BYTES])
async def test_what_is_no_answer_is_looked_for_further_on(bench: Bench, size: int) -> None:
    """And replaced by what is one; where there is none, nothing is found and nothing kept."""
    junk = replace(ANSWER, body=b"x" * size)
    bench.redis.put(KEY, junk)
    assert await bench.tiers.find(KEY, None, (), lambda answer: answer is ANSWER) is None
    assert bench.memory.get(KEY) is None
    bench.database.put(KEY, ANSWER)
    found = await bench.tiers.find(KEY, None, (), lambda answer: answer is ANSWER)
    assert found == Found(ANSWER, DATABASE)
    assert bench.redis.answers[KEY] is ANSWER


async def test_what_nobody_has_is_none(bench: Bench) -> None:
    """After each has been asked once."""
    assert await bench.tiers.find(KEY, None) is None
    assert (bench.redis.reads, bench.database.reads) == (1, 1)


@pytest.mark.parametrize(
    "names", [(MEMORY,), (REDIS,), (DATABASE,), (DATABASE, MEMORY), (MEMORY, REDIS, DATABASE), ("other",)]
)
async def test_only_the_tiers_of_the_policy_are_used(bench: Bench, names: tuple[str, ...]) -> None:
    """To keep, to read, and to fill; a name that is not there is nothing."""
    bench.tiers.put(KEY, ANSWER, names)
    assert set(bench.have()) == set(names) - {"other"}
    other = Bench()
    for store in (other.redis, other.database):
        store.put(KEY, ANSWER)
    other.memory.put(KEY, ANSWER)
    found = await other.tiers.find(KEY, names)
    nearest = next((name for name in (MEMORY, REDIS, DATABASE) if name in names), None)
    assert (found.tier if found else None) == nearest
    filled = Bench()
    filled.database.put(KEY, ANSWER)
    await filled.tiers.find(KEY, names)
    assert set(filled.have()) == ({DATABASE} | (set(names) if DATABASE in names else set())) - {"other"}


async def test_without_names_the_default_is_used() -> None:
    """As the process was started."""
    bench = Bench(default=(DATABASE,))
    bench.tiers.put(KEY, ANSWER, None)
    assert bench.have() == [DATABASE]


@pytest.mark.parametrize(
    ("purge", "voids"),
    [
        (Purge(ASKED_AT), True),
        (Purge(ASKED_AT - 0.1), False),
        (Purge(1_045.0, tenant="team-a", model="m", version="v1", key_prefix="0001"), True),
        (Purge(1_045.0, tenant="team-b"), False),
        (Purge(1_045.0, model="n"), False),
        (Purge(1_045.0, version="v2"), False),
        (Purge(1_045.0, key_prefix="0002"), False),
    ],
    ids=["asked then", "asked later", "all fit", "tenant", "model", "version", "prefix"],
)
async def test_a_purge_voids_what_it_means_in_every_tier(bench: Bench, purge: Purge, voids: bool) -> None:
    """Also an answer that is still on its way: what counts is when it was asked for."""
    bench.tiers.put(KEY, ANSWER, None)
    assert (await bench.tiers.find(KEY, None, [purge]) is None) is voids
    assert (MEMORY in bench.have()) is not voids
    assert bench.tiers.put(KEY, ANSWER, None, [purge]) is not voids


async def test_a_void_answer_above_is_replaced_by_a_good_one_below(bench: Bench) -> None:
    """It is as good as none."""
    newer = replace(ANSWER, stored_at=48.0, seconds=1.0)
    bench.memory.put(KEY, ANSWER)
    bench.redis.put(KEY, ANSWER)
    bench.database.put(KEY, newer)
    assert await bench.tiers.find(KEY, None, [Purge(1_040.0)]) == Found(newer, DATABASE)
    assert bench.memory.get(KEY) is bench.redis.answers[KEY] is newer


def test_a_sweep_frees_what_purges_have_voided(bench: Bench) -> None:
    """In memory; nothing without a purge."""
    bench.memory.put(KEY, ANSWER)
    bench.memory.put(bytes(32), replace(ANSWER, model="n"))
    assert bench.tiers.sweep_memory([]) == 0
    assert bench.tiers.sweep_memory([Purge(1_045.0, model="m")]) == 1
    assert [key for key, _ in bench.memory.items()] == [bytes(32)]
