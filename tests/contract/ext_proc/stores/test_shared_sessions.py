"""Sessions in each place where they may be kept, by one suite; and without that place."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import structlog

from ext_proc.sessions.records import MAX_BYTES, STEP, NotErased, Opened, Record, tenths
from ext_proc.stores.database_sessions import DatabaseSessions
from ext_proc.stores.engines import engines_for
from ext_proc.stores.memory_sessions import MemorySessions
from ext_proc.stores.neighbour import Away
from ext_proc.stores.redis import connect
from ext_proc.stores.redis_sessions import RedisSessions
from ext_proc.stores.shared_sessions import Far, SharedSessions
from tests.contract.ext_proc.stores.conftest import KEY, OTHER, clocks
from tests.harness.redis import RedisServer

TTL_MS = 60_000


@dataclass
class Home:
    """Somewhere to keep sessions, and how a processor opens a store there."""

    make: Callable[[], Awaitable[Far]]
    opened: list[Far] = field(default_factory=list)

    async def far(self) -> Far:
        """Return the store as one more processor sees it."""
        self.opened.append(await self.make())
        return self.opened[-1]


@pytest.fixture(params=["redis", "sqlite", "postgresql"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Home]:
    """An empty place of each kind in turn."""
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis")
        server.command("FLUSHALL")

        async def make() -> Far:
            return RedisSessions(connect(server.url), clocks, structlog.get_logger())
    else:
        url = f"sqlite:///{tmp_path / 'sessions.db'}"
        if request.param == "postgresql":
            url = request.getfixturevalue("postgres").new_database()

        async def make() -> Far:
            store = DatabaseSessions(engines_for(url), clocks, structlog.get_logger())
            await store.open()
            return store

    made = Home(make)
    yield made
    await asyncio.gather(*(store.close() for store in made.opened))


async def renew(
    far: Far, *records: Record, key: bytes = KEY, ttl_ms: int = TTL_MS, keep: int = 4, draw: bool = True
) -> Opened:
    """Renew a session; a database that is slow for a moment is asked again."""
    for _ in range(20):
        try:
            return await far.renew(key, records, ttl_ms=ttl_ms, keep=keep, draw=draw)
        except Away:
            await asyncio.sleep(0.1)
    return await far.renew(key, records, ttl_ms=ttl_ms, keep=keep, draw=draw)


async def test_processors_see_what_each_other_keeps(home: Home) -> None:
    """In the order of the numbers, each number once, and nothing of other sessions."""
    one, other = await home.far(), await home.far()
    first, second = await renew(one), await renew(other)
    assert (first.records, first.number % STEP, second.number % STEP) == ((), 0, 0)
    assert second.number > first.number
    await renew(other, (second.number, b"\x00\xff"), draw=False)
    await renew(one, (first.number, b"old"), (first.number, b"first"), draw=False)
    found = await renew(one)
    assert found.records == ((first.number, b"first"), (second.number, b"\x00\xff"))
    assert found.number > second.number
    assert (await renew(other, key=OTHER)).records == ()


async def test_the_last_ones_are_kept_as_far_as_there_is_room(home: Home) -> None:
    """The oldest go; what is too long hides those before it."""
    far = await home.far()
    for number in range(1, 7):
        await renew(far, (number, b"x"), draw=False)
    assert [number for number, _ in (await renew(far)).records] == [3, 4, 5, 6]
    found = await renew(far, (7, b"x" * MAX_BYTES), draw=False)
    assert [number for number, _ in found.records] == [7]
    assert [number for number, _ in (await renew(far, (8, b""), draw=False)).records] == [7, 8]


async def test_a_number_is_later_than_all_that_was_kept(home: Home) -> None:
    """Also than those that processors drew for themselves."""
    far = await home.far()
    ahead = (tenths(time.time()) + 600) * STEP
    await renew(far, (ahead + 17, b"apart"), draw=False)
    assert (await renew(far)).number == ahead + STEP


async def test_none_of_many_at_once_is_lost(home: Home) -> None:
    """Whichever processor they come from."""
    stores = [await home.far(), await home.far()]
    numbers = [(await renew(stores[count % 2], keep=40)).number for count in range(12)]
    await asyncio.gather(
        *(
            renew(stores[count % 2], (number, b"%d" % count), keep=40, draw=False)
            for count, number in enumerate(numbers)
        )
    )
    found = await renew(stores[0], keep=40)
    assert found.records == tuple((number, b"%d" % count) for count, number in enumerate(numbers))
    assert len(set(numbers)) == 12


async def test_a_session_lives_on_while_it_is_used(home: Home) -> None:
    """Each use gives it its time anew; then it is gone."""
    far = await home.far()
    await renew(far, (1, b"x"), ttl_ms=500)
    for _ in range(2):
        await asyncio.sleep(0.3)
        assert (await renew(far, ttl_ms=500)).records
    await asyncio.sleep(0.6)
    assert (await renew(far, ttl_ms=500)).records == ()


async def test_an_erased_session_is_gone(home: Home) -> None:
    """For everybody, with what is under way, and only that one."""
    one, other = await home.far(), await home.far()
    under_way = (await renew(one, (1, b"x"))).number
    await renew(one, (1, b"x"), key=OTHER)
    for _ in range(2):
        await other.erase(KEY, ttl_ms=TTL_MS)
    assert (await renew(one, (under_way, b"late"), draw=False)).records == ()
    number = (await renew(one)).number
    assert (await renew(other, (number, b"new"), draw=False)).records == ((number, b"new"),)
    assert (await renew(one, key=OTHER)).records


class Flaky:
    """A store that is there or not."""

    def __init__(self) -> None:
        self.memory = MemorySessions(time.monotonic)
        self.away = False
        self.told: list[Sequence[Record]] = []

    async def renew(
        self, key: bytes, records: Sequence[Record], *, ttl_ms: int, keep: int, draw: bool
    ) -> Opened:
        """Do it, or say that nobody answers."""
        await asyncio.sleep(0)
        if self.away:
            raise Away
        self.told.append(records)
        for record in records:
            self.memory.commit(key, record, ttl_ms=ttl_ms, keep=keep)
        return await self.memory.begin(key, ttl_ms=ttl_ms, keep=keep)

    async def erase(self, key: bytes, *, ttl_ms: int) -> None:
        """Forget it, or say that nobody answers."""
        if self.away:
            raise Away
        await self.memory.erase(key, ttl_ms=ttl_ms)

    async def close(self) -> None:
        """Hold nothing."""


async def begin(sessions: SharedSessions) -> Opened:
    """Let a request come."""
    return await sessions.begin(KEY, ttl_ms=TTL_MS, keep=4)


def commit(sessions: SharedSessions, number: int, record: bytes) -> None:
    """Let a request be answered."""
    sessions.commit(KEY, (number, record), ttl_ms=TTL_MS, keep=4)


async def test_the_next_request_sees_the_turn_before_the_store_has_heard_of_it() -> None:
    """It comes the moment after the answer."""
    far = Flaky()
    sessions = SharedSessions(far, MemorySessions(time.monotonic, 1))
    number = (await begin(sessions)).number
    commit(sessions, number, b"one")
    assert (await begin(sessions)).records == ((number, b"one"),)
    await sessions.close()
    assert (await begin(SharedSessions(far, MemorySessions(time.monotonic, 2)))).records


async def test_without_the_store_a_session_goes_on_and_is_told_later() -> None:
    """Once; nobody's turn takes the place of another's."""
    far = Flaky()
    here, there = (SharedSessions(far, MemorySessions(time.monotonic, salt)) for salt in (1, 2))
    first = await begin(here)
    commit(here, first.number, b"one")
    await asyncio.sleep(0.01)
    await begin(there)
    far.away = True
    for sessions, text in ((here, b"here"), (there, b"there")):
        alone = await begin(sessions)
        assert alone.records == ((first.number, b"one"),)
        commit(sessions, alone.number, text)
        await asyncio.sleep(0.01)
        assert (await begin(sessions)).records == ((first.number, b"one"), (alone.number, text))
    far.away = False
    for _ in range(2):
        await begin(here)
        together = await begin(there)
    assert [text for _, text in together.records] == [b"one", b"here", b"there"]
    assert together.number > together.records[-1][0]
    assert sum(len(records) for records in far.told) == 3
    for sessions in (here, there):
        await sessions.close()


async def test_an_erased_session_does_not_come_back_from_memory() -> None:
    """Not from the processor that erased it, and from no other that is still to tell a turn."""
    far = Flaky()
    here, there = (SharedSessions(far, MemorySessions(time.monotonic, salt)) for salt in (1, 2))
    commit(here, (await begin(here)).number, b"one")
    await asyncio.sleep(0.01)
    await begin(there)
    far.away = True
    commit(there, (await begin(there)).number, b"two")
    with pytest.raises(NotErased):
        await here.erase(KEY, ttl_ms=TTL_MS)
    assert (await begin(here)).records == ()
    far.away = False
    await here.erase(KEY, ttl_ms=TTL_MS)
    for sessions in (there, here, there):
        assert (await begin(sessions)).records == ()
        await sessions.close()
