"""The in-memory store against what it promises, and its accounting against real memory."""

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


def test_what_nobody_asked_for_goes_first(clock: Clock) -> None:
    """An answer that was read stays; the one nobody asked for makes room."""
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
    """A new policy shrinks the store, the oldest first."""
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


def test_once_asked_questions_push_nothing_out_that_is_asked_often(clock: Clock) -> None:
    """A long list of them passes through the window alone."""
    store = MemoryStore(100, 10**9, clock)
    for number in range(20):
        store.put(key(number), ANSWER)
        store.get(key(number))
    for number in range(1_000, 3_000):
        store.put(key(number), ANSWER)
    assert all(store.get(key(number)) for number in range(20))


def test_what_comes_again_soon_after_it_left_stays(clock: Clock) -> None:
    """Its key is remembered for a while."""
    store = MemoryStore(20, 10**9, clock)
    for number in range(25):
        store.put(key(number), ANSWER)
    assert store.get(key(0)) is None
    store.put(key(0), ANSWER)
    for number in range(1_000, 1_012):
        store.put(key(number), ANSWER)
    assert store.get(key(0)) is ANSWER


def test_a_large_new_answer_is_there_at_once(clock: Clock) -> None:
    """It has room beyond the window; others make it."""
    large = replace(ANSWER, body=b"x" * 10_000)
    store = MemoryStore(100, entry_bytes(key(1), large) + 100, clock)
    for number in range(10):
        store.put(key(number), ANSWER)
        store.get(key(number))
    assert store.put(key(99), large)
    assert store.get(key(99)) is large
    assert len(store) == 1


def test_answers_are_shown_with_their_hits(clock: Clock) -> None:
    """Without those that have expired, and without counting as hits."""
    store = MemoryStore(10, 10_000, clock)
    for number, hits in ((1, 1), (2, 3), (3, 0), (4, 2)):
        store.put(key(number), replace(ANSWER, expires_at=1.0) if number == 4 else ANSWER)
        for _ in range(hits):
            store.get(key(number))
    clock.now = 1.0
    assert dict(store.items()) == {key(number): ANSWER for number in (1, 2, 3)}
    assert [store.hits(key(number)) for number in (1, 2, 3, 9)] == [1, 3, 0, 0]
    assert (store.stats().hits, len(store)) == (6, 4)


def test_a_new_answer_takes_over_the_hits_of_the_one_before(clock: Clock) -> None:
    """They are the question's."""
    store = MemoryStore(10, 10_000, clock)
    store.put(key(1), ANSWER)
    store.put(key(2), ANSWER)
    for _ in range(3):
        store.get(key(2))
    store.put(key(2), replace(ANSWER, body=b"newer"))
    store.get(key(1))
    assert (store.hits(key(2)), store.hits(key(1))) == (3, 1)


def test_a_sweep_forgets_what_is_void(clock: Clock) -> None:
    """And what has expired; their bytes are free."""
    store = MemoryStore(10, 10_000, clock)
    for number in range(4):
        store.put(key(number), replace(ANSWER, version=f"v{number % 2}"))
    store.put(key(4), replace(ANSWER, expires_at=1.0))
    store.get(key(1))
    clock.now = 1.0
    assert store.sweep(lambda name, answer: answer.version == "v1" and name != key(3)) == 1
    assert {name for name, _ in store.items()} == {key(0), key(2), key(3)}
    assert (len(store), store.stats().expired, store.stats().evicted) == (3, 1, 0)
    assert store.stats().bytes == 3 * entry_bytes(key(0), ANSWER) + 3


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("body_bytes", [10, 300, 20_000])
def test_the_bytes_are_those_of_real_memory(clock: Clock, body_bytes: int, rounds: int) -> None:
    """What the store says it holds is within a quarter of what Python has allocated, also once it is full."""
    count = 400
    store = MemoryStore(count, 10**9, clock)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(count * rounds):
            body = bytes([number % 256]) * body_bytes
            text = f"model-{number}"
            store.put(
                key(number),
                StoredAnswer(
                    *(body, "application/json", text, "stable", number + 0.5, number + 1e6),
                    *(300 + number, 400 + number, number + 1.5, number + 5e5, f"team-{number}"),
                ),
            )
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert store.stats().bytes == pytest.approx(used, rel=0.25)


def test_one_that_comes_back_stays_where_there_is_room_for_one() -> None:
    """It takes the place of the one that had taken its own."""
    store = MemoryStore(1, 100_000, Clock())
    for number in (0, 1, 0):
        assert store.put(key(number), ANSWER)
    assert store.get(key(0)) is ANSWER
    assert len(store) == 1


@dataclass
class Promised:
    """What the store may have: what was put and not deleted since, of which it may have forgotten some."""

    max_entries: int
    max_bytes: int
    rows: dict[bytes, StoredAnswer] = field(default_factory=dict)
    newest: bytes | None = None

    def drop(self, unwanted: bytes) -> None:
        """Forget one."""
        self.rows.pop(unwanted, None)
        if self.newest == unwanted:
            self.newest = None


KEYS = st.integers(0, 6).map(key)
BODIES = st.sampled_from([0, 10, 500, 1_500, 3_000]).map(lambda size: b"x" * size)


class StoreAgainstPromises(RuleBasedStateMachine):
    """Any order of calls: what is found is what was put last, the newest is there, the bounds hold."""

    @initialize(
        entries=st.integers(0, 5), size=st.sampled_from([0, ENTRY_OVERHEAD_BYTES, 2_500, 5_000, 100_000])
    )
    def make(self, entries: int, size: int) -> None:
        """Begin with an empty store of some size."""
        self.clock = Clock()
        self.store = MemoryStore(entries, size, self.clock)
        self.promised = Promised(entries, size)

    @rule(name=KEYS, body=BODIES, ttl=st.sampled_from([0.0, 1.0, 5.0, 1e9]))
    def put(self, name: bytes, body: bytes, ttl: float) -> None:
        """Keep an answer."""
        answer = replace(ANSWER, body=body, stored_at=self.clock.now, expires_at=self.clock.now + ttl)
        kept = self.store.put(name, answer)
        self.promised.drop(name)
        fits = entry_bytes(name, answer) <= self.promised.max_bytes and self.promised.max_entries > 0
        assert kept is (fits and ttl > 0)
        if kept:
            self.promised.rows[name] = answer
            self.promised.newest = name

    @rule(name=KEYS)
    def get(self, name: bytes) -> None:
        """Read an answer."""
        expected = self.promised.rows.get(name)
        if expected is not None and expected.expires_at <= self.clock.now:
            self.promised.drop(name)
            expected = None
        found = self.store.get(name)
        assert found is expected or (found is None and name != self.promised.newest)

    @rule(name=KEYS)
    def delete(self, name: bytes) -> None:
        """Forget an answer."""
        deleted = self.store.delete(name)
        assert not deleted or name in self.promised.rows
        assert deleted or name != self.promised.newest
        self.promised.drop(name)

    @rule(seconds=st.sampled_from([0.5, 1.0, 10.0]))
    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.now += seconds

    @rule(entries=st.integers(0, 5), size=st.sampled_from([0, 2_500, 5_000, 100_000]))
    def resize(self, entries: int, size: int) -> None:
        """Change the bounds."""
        self.store.resize(entries, size)
        self.promised.max_entries, self.promised.max_bytes, self.promised.newest = entries, size, None

    @rule()
    def clear(self) -> None:
        """Forget all."""
        self.store.clear()
        self.promised.rows.clear()
        self.promised.newest = None

    @invariant()
    def accounted(self) -> None:
        """Number and bytes are those of what is there, and within the bounds; what was not lost is shown."""
        stats = self.store.stats()
        assert stats.entries == len(self.store) <= self.promised.max_entries
        assert stats.bytes <= self.promised.max_bytes
        shown = dict(self.store.items())
        assert all(self.promised.rows[name] is answer for name, answer in shown.items())
        if stats.entries == len(shown):
            assert stats.bytes == sum(entry_bytes(name, answer) for name, answer in shown.items())


TestStoreAgainstPromises = StoreAgainstPromises.TestCase
TestStoreAgainstPromises.settings = settings(max_examples=40, stateful_step_count=30)
