"""The in-memory store against a naive model of it, and its accounting against real memory."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ext_proc.answers import StoredAnswer
from ext_proc.stores.memory import ENTRY_OVERHEAD_BYTES, MemoryStore, entry_bytes

ANSWER = StoredAnswer(b"{}", "application/json", "m", "v", 0.0, 100.0)


@dataclass
class Clock:
    """A clock that stands until it is moved."""

    now: float = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def key(number: int) -> bytes:
    """Return a key as long as the real ones."""
    return number.to_bytes(32, "big")


@pytest.fixture
def clock() -> Clock:
    """A clock at 0."""
    return Clock()


def test_an_answer_is_given_back_until_it_expires(clock: Clock) -> None:
    """At `expires_at` it is gone, and its bytes are free."""
    store = MemoryStore(10, 10_000, clock)
    assert store.put(key(1), ANSWER)
    clock.now = 99.9
    assert store.get(key(1)) is ANSWER
    clock.now = 100.0
    assert store.get(key(1)) is None
    assert (len(store), store.stats().bytes, store.stats().expired) == (0, 0, 1)


def test_the_least_recently_used_goes_first(clock: Clock) -> None:
    """Reading keeps an answer; the one nobody asked for makes room."""
    store = MemoryStore(2, 10_000, clock)
    store.put(key(1), ANSWER)
    store.put(key(2), ANSWER)
    store.get(key(1))
    store.put(key(3), ANSWER)
    assert [store.get(key(number)) is not None for number in (1, 2, 3)] == [True, False, True]
    assert store.stats().evicted == 1


def test_bytes_are_bounded_too(clock: Clock) -> None:
    """Few large answers fill a store as many small ones do."""
    large = replace(ANSWER, body=b"x" * 1_000)
    room = 2 * entry_bytes(key(1), large)
    store = MemoryStore(1_000, room, clock)
    for number in range(5):
        store.put(key(number), large)
    assert len(store) == 2
    assert store.stats().bytes == room


def test_an_answer_larger_than_the_store_is_not_kept(clock: Clock) -> None:
    """It does not push out everything else; the outdated answer under its key is gone, though."""
    store = MemoryStore(10, 2_000, clock)
    store.put(key(1), ANSWER)
    store.put(key(2), ANSWER)
    assert not store.put(key(1), replace(ANSWER, body=b"x" * 2_000))
    assert store.get(key(1)) is None
    assert store.get(key(2)) is ANSWER
    assert store.stats().refused == 1


@pytest.mark.parametrize(("entries", "size"), [(0, 10_000), (10, 0)])
def test_a_store_without_room_keeps_nothing(clock: Clock, entries: int, size: int) -> None:
    """Zero is a bound like any other."""
    store = MemoryStore(entries, size, clock)
    assert not store.put(key(1), ANSWER)
    assert store.get(key(1)) is None


def test_an_expired_answer_is_not_kept(clock: Clock) -> None:
    """Nothing could ever read it."""
    clock.now = 100.0
    assert not MemoryStore(10, 10_000, clock).put(key(1), ANSWER)


def test_smaller_bounds_take_effect_at_once(clock: Clock) -> None:
    """A new policy shrinks the store, least recently used first."""
    store = MemoryStore(10, 100_000, clock)
    for number in range(5):
        store.put(key(number), ANSWER)
    store.resize(2, 100_000)
    assert [number for number in range(5) if store.get(key(number))] == [3, 4]
    store.resize(2, 0)
    assert (len(store), store.stats().bytes) == (0, 0)


def test_clear_forgets_all(clock: Clock) -> None:
    """After it the store is as new, but for its counters."""
    store = MemoryStore(10, 10_000, clock)
    store.put(key(1), ANSWER)
    store.clear()
    assert store.get(key(1)) is None
    assert (len(store), store.stats().bytes) == (0, 0)


def test_hits_and_misses_are_counted(clock: Clock) -> None:
    """One of them for every get."""
    store = MemoryStore(10, 10_000, clock)
    store.put(key(1), ANSWER)
    store.get(key(1))
    store.get(key(2))
    store.delete(key(1))
    store.get(key(1))
    assert (store.stats().hits, store.stats().misses) == (1, 2)


@pytest.mark.parametrize("body_bytes", [10, 300, 20_000])
def test_the_bytes_are_those_of_real_memory(clock: Clock, body_bytes: int) -> None:
    """What the store says it holds is within a quarter of what Python has allocated for it."""
    count = 2_000
    store = MemoryStore(count, 10**9, clock)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(count):
            body = bytes([number % 256]) * body_bytes
            text = f"model-{number}"
            store.put(
                key(number),
                StoredAnswer(
                    body,
                    "application/json",
                    text,
                    "stable",
                    number + 0.5,
                    number + 1e6,
                    300 + number,
                    400 + number,
                ),
            )
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert store.stats().bytes == pytest.approx(used, rel=0.25)


@dataclass
class Naive:
    """What the store must do, without any cleverness: a list, oldest use first."""

    max_entries: int
    max_bytes: int
    rows: list[tuple[bytes, StoredAnswer]] = field(default_factory=list)

    def find(self, wanted: bytes) -> StoredAnswer | None:
        """Return the answer under `wanted`."""
        return next((answer for name, answer in self.rows if name == wanted), None)

    def drop(self, unwanted: bytes) -> None:
        """Forget one."""
        self.rows = [row for row in self.rows if row[0] != unwanted]

    def size(self) -> int:
        """Return the bytes of all."""
        return sum(entry_bytes(name, answer) for name, answer in self.rows)

    def make_room(self) -> None:
        """Forget the least recently used until the rest fits."""
        while self.rows and (len(self.rows) > self.max_entries or self.size() > self.max_bytes):
            self.rows.pop(0)


KEYS = st.integers(0, 6).map(key)
BODIES = st.sampled_from([0, 10, 500, 1_500, 3_000]).map(lambda size: b"x" * size)


class StoreAgainstModel(RuleBasedStateMachine):
    """Any order of calls leaves the store with exactly what the naive model has."""

    @initialize(
        entries=st.integers(0, 5), size=st.sampled_from([0, ENTRY_OVERHEAD_BYTES, 2_500, 5_000, 100_000])
    )
    def make(self, entries: int, size: int) -> None:
        """Begin with an empty store of some size."""
        self.clock = Clock()
        self.store = MemoryStore(entries, size, self.clock)
        self.model = Naive(entries, size)

    @rule(name=KEYS, body=BODIES, ttl=st.sampled_from([0.0, 1.0, 5.0, 1e9]))
    def put(self, name: bytes, body: bytes, ttl: float) -> None:
        """Keep an answer."""
        answer = replace(ANSWER, body=body, stored_at=self.clock.now, expires_at=self.clock.now + ttl)
        kept = self.store.put(name, answer)
        self.model.drop(name)
        fits = entry_bytes(name, answer) <= self.model.max_bytes and self.model.max_entries > 0 and ttl > 0
        if fits:
            self.model.rows.append((name, answer))
            self.model.make_room()
        assert kept is fits

    @rule(name=KEYS)
    def get(self, name: bytes) -> None:
        """Read an answer."""
        expected = self.model.find(name)
        if expected is not None:
            self.model.drop(name)
            if expected.expires_at <= self.clock.now:
                expected = None
            else:
                self.model.rows.append((name, expected))
        assert self.store.get(name) is expected

    @rule(name=KEYS)
    def delete(self, name: bytes) -> None:
        """Forget an answer."""
        assert self.store.delete(name) is (self.model.find(name) is not None)
        self.model.drop(name)

    @rule(seconds=st.sampled_from([0.5, 1.0, 10.0]))
    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.now += seconds

    @rule(entries=st.integers(0, 5), size=st.sampled_from([0, 2_500, 5_000, 100_000]))
    def resize(self, entries: int, size: int) -> None:
        """Change the bounds."""
        self.store.resize(entries, size)
        self.model.max_entries, self.model.max_bytes = entries, size
        self.model.make_room()

    @rule()
    def clear(self) -> None:
        """Forget all."""
        self.store.clear()
        self.model.rows.clear()

    @invariant()
    def same_size(self) -> None:
        """Number and bytes agree, and are within the bounds."""
        stats = self.store.stats()
        assert (stats.entries, stats.bytes) == (len(self.model.rows), self.model.size())
        assert stats.entries == len(self.store) <= self.model.max_entries
        assert stats.bytes <= self.model.max_bytes


TestStoreAgainstModel = StoreAgainstModel.TestCase
TestStoreAgainstModel.settings = settings(max_examples=40, stateful_step_count=30)
