"""Sessions in memory."""

from __future__ import annotations

from ext_proc.sessions.records import MAX_BYTES as RECORD_BYTES
from ext_proc.sessions.records import Opened, Record
from ext_proc.stores.memory_sessions import MemorySessions


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now


async def kept(store: MemorySessions, key: bytes = b"k", *, ttl_ms: int = 1_000) -> tuple[Record, ...]:
    """Return the records of a session."""
    return (await store.begin(key, ttl_ms=ttl_ms, keep=3)).records


async def test_a_record_is_there_for_the_next_request() -> None:
    """Of this session and no other; under one number it is there once."""
    store = MemorySessions(Clock())
    number = (await store.begin(b"k", ttl_ms=1_000, keep=3)).number
    store.commit(b"k", (number, b"one"), ttl_ms=1_000, keep=3)
    store.commit(b"k", (number, b"two"), ttl_ms=1_000, keep=3)
    assert await kept(store) == ((number, b"two"),)
    assert await kept(store, b"other") == ()


async def test_a_session_lives_on_while_it_is_used() -> None:
    """Each use gives it its time anew; after that it is gone."""
    clock = Clock()
    store = MemorySessions(clock)
    store.commit(b"k", (1, b"one"), ttl_ms=1_000, keep=3)
    for _ in range(3):
        clock.now += 0.9
        assert await kept(store)
    clock.now += 1.1
    assert await kept(store) == ()


async def test_room_is_made_by_those_used_longest_ago() -> None:
    """However many sessions there are, and however long they are."""
    store = MemorySessions(Clock(), max_sessions=2)
    for key in (b"a", b"b", b"a", b"c"):
        store.commit(key, (1, key), ttl_ms=1_000, keep=3)
    assert len(store) == 2
    assert store.untold(b"a") == [(1, b"a")]
    assert store.untold(b"b") == []
    small = MemorySessions(Clock(), max_bytes=5_000)
    for key in (b"a", b"b", b"c"):
        small.commit(key, (1, b"x" * 2_000), ttl_ms=1_000, keep=3)
    assert len(small) == 1
    small.commit(b"e", (1, b"x" * 6_000), ttl_ms=1_000, keep=3)
    assert len(small) == 0


async def test_the_newest_records_are_kept() -> None:
    """As many as asked for, and no more bytes than a session may have."""
    store = MemorySessions(Clock())
    for number in (1, 2, 3, 4):
        store.commit(b"k", (number, b"x"), ttl_ms=1_000, keep=3)
    assert [number for number, _ in await kept(store)] == [2, 3, 4]
    store.commit(b"k", (5, b"x" * RECORD_BYTES), ttl_ms=1_000, keep=3)
    assert [number for number, _ in await kept(store)] == [5]


async def test_an_erased_session_is_empty() -> None:
    """A turn that was asked before is not kept; one that is asked after is."""
    store = MemorySessions(Clock())
    for erased in (b"k", b"new"):
        before = (await store.begin(erased, ttl_ms=1_000, keep=3)).number
        store.commit(erased, (before, b"x"), ttl_ms=1_000, keep=3)
        under_way = (await store.begin(erased, ttl_ms=1_000, keep=3)).number
        await store.erase(erased, ttl_ms=1_000)
        store.commit(erased, (under_way, b"late"), ttl_ms=1_000, keep=3)
        assert (store.untold(erased), await kept(store, erased)) == ([], ())
        after = (await store.begin(erased, ttl_ms=1_000, keep=3)).number
        store.commit(erased, (after, b"y"), ttl_ms=1_000, keep=3)
        assert await kept(store, erased) == ((after, b"y"),)
    shared = Opened(after + 1, ())
    assert store.adopt(b"k", shared, ttl_ms=1_000, keep=3).records == ((after, b"y"),)
    await store.erase(b"k", ttl_ms=1_000)
    store.adopt(b"k", Opened(1, ()), ttl_ms=1_000, keep=3)
    store.commit(b"k", (1, b"its number"), ttl_ms=1_000, keep=3)
    assert await kept(store) == ((1, b"its number"),)


async def test_what_another_store_has_not_been_told_is_known() -> None:
    """Until it is told, in the form that it has now."""
    store = MemorySessions(Clock())
    store.commit(b"k", (5, b"five"), ttl_ms=1_000, keep=3)
    told = store.untold(b"k")
    store.commit(b"k", (5, b"changed"), ttl_ms=1_000, keep=3)
    store.told(b"k", told)
    assert store.untold(b"k") == [(5, b"changed")]
    both = store.adopt(b"k", Opened(9, ((4, b"four"),)), ttl_ms=1_000, keep=3)
    assert both == Opened(9, ((4, b"four"), (5, b"changed")))
    store.told(b"k", store.untold(b"k"))
    store.told(b"gone", told)
    assert store.untold(b"k") == []
    assert store.adopt(b"k", Opened(10, ()), ttl_ms=1_000, keep=3).records == ()
    assert (await store.begin(b"k", ttl_ms=1_000, keep=3)).number > 10
    await store.close()
