"""Answers in a real SQLite file and a real PostgreSQL, well and otherwise. See also `test_entry_store`."""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog
from sqlalchemy import event, func, select
from structlog.testing import capture_logs

from ext_proc.contract.snapshot import Purge
from ext_proc.stores import database
from ext_proc.stores.database import READ_WITHIN_S, DatabaseStore
from ext_proc.stores.engines import Engines, engines_for
from ext_proc.stores.neighbour import LATE_WHEN_BUSY
from ext_proc.stores.table import ANSWERS
from tests.contract.ext_proc.stores.conftest import KEY, OTHER, answer, clocks, numbered, written
from tests.harness.postgres import PostgresServer

AWAY = "the cache's database does not answer; the cache goes on without it"
BACK = "the cache's database is back"
NO_WRITES = "the cache's database takes no answers; what it has is still read"
WRITES = "the cache's database takes answers again"


@asynccontextmanager
async def opened(
    url: str,
    *,
    max_entries: int = 1_000,
    max_bytes: int = 10**9,
    change: Callable[[Engines], None] | None = None,
) -> AsyncIterator[DatabaseStore]:
    """A store that has been used."""
    engines = engines_for(url)
    if change is not None:
        change(engines)
    store = DatabaseStore(engines, clocks, structlog.get_logger(), max_entries, max_bytes)
    store.start()
    await used(store)
    yield store
    await store.close()


async def used(store: DatabaseStore) -> None:
    """Wait until the store has answered once more."""
    misses = store.stats.misses
    async with asyncio.timeout(20):
        while store.stats.misses == misses:
            await store.get(OTHER)
            await asyncio.sleep(0.01)


async def kept(url: str) -> list[str]:
    """Return the keys of all rows, those written first before the others."""
    engines = engines_for(url)
    async with engines.reading.connect() as connection:
        keys = list(
            await connection.scalars(select(ANSWERS.c.key).order_by(ANSWERS.c.written_at, ANSWERS.c.key))
        )
    await engines.reading.dispose()
    return keys


async def fill(store: DatabaseStore, numbers: range, ttl_s: float = 60.0) -> None:
    """Keep an answer under each of `numbers`, one batch after the other."""
    before = store.stats.written
    for number in numbers:
        store.put(numbered(number), answer(b'{"a": "' + b"x" * 1_000 + b'"}', ttl_s))
    await written(store, before + len(numbers))


async def test_processors_that_begin_at_once_make_one_table(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them is refused anything, however late the answers are on a busy machine."""
    monkeypatch.setattr(database, "READ_WITHIN_S", 5.0)
    stores = [DatabaseStore(engines_for(database_url), clocks, structlog.get_logger()) for _ in range(5)]
    await asyncio.gather(*(used(store) for store in stores))
    assert [store.stats.failures for store in stores] == [0] * 5
    await asyncio.gather(*(store.close() for store in stores))


async def test_one_that_has_been_opened_finds_what_there_is_at_once(database_url: str) -> None:
    """One that has not misses once, and makes nobody wait."""
    async with opened(database_url) as store:
        store.put(KEY, answer())
        await written(store)
    for opens in (True, False):
        store = DatabaseStore(engines_for(database_url), clocks, structlog.get_logger())
        if opens:
            await store.open()
        assert (await store.get(KEY) is not None) is opens
        await store.close()


async def test_a_table_that_vanishes_is_made_again(database_url: str) -> None:
    """Whoever empties the cache by hand breaks nothing."""
    async with opened(database_url) as store:
        engines = engines_for(database_url)
        async with engines.writing.begin() as connection:
            await connection.run_sync(ANSWERS.drop)
        await engines.writing.dispose()
        await used(store)
        await fill(store, range(3))
        assert len(await kept(database_url)) == 3


async def test_a_sweep_removes_what_has_expired(database_url: str) -> None:
    """All of it, in small parts."""
    async with opened(database_url) as store:
        await fill(store, range(700), ttl_s=1.0)
        await fill(store, range(700, 710))
        await asyncio.sleep(1.1)
        assert await store.sweep() == 700
        assert len(await kept(database_url)) == 10
        assert await store.sweep() == 0


@pytest.mark.parametrize(("max_entries", "max_bytes"), [(30, 10**9), (10**6, 45_000)])
async def test_a_sweep_removes_the_oldest_beyond_the_bounds(
    database_url: str, max_entries: int, max_bytes: int
) -> None:
    """By number and by bytes; what is left fits."""
    async with opened(database_url) as filling:
        await fill(filling, range(50))
        await fill(filling, range(50, 100))
    async with opened(database_url, max_entries=max_entries, max_bytes=max_bytes) as store:
        removed = await store.sweep()
        left = await kept(database_url)
        assert removed == 100 - len(left)
        assert set(left) <= {numbered(number).hex() for number in range(50, 100)}
        assert 25 <= len(left) <= max_entries
        assert await store.sweep() == 0


async def test_a_store_that_grows_is_swept_by_itself(database_url: str) -> None:
    """Long before the minute is over."""
    async with opened(database_url, max_entries=40) as store:
        await fill(store, range(100))
        async with asyncio.timeout(5):
            while len(await kept(database_url)) > 40:  # noqa: ASYNC110 - it is asked, not told
                await asyncio.sleep(0.02)


async def test_a_purge_removes_what_it_means(database_url: str) -> None:
    """By tenant, model, version and key, each narrowing it; what was asked for later stays."""
    async with opened(database_url) as store:
        for number, (partition, model, version) in enumerate(
            [("a", "m", "v1"), ("b", "m", "v1"), ("a", "n", "v1"), ("a", "m", "v2")]
        ):
            store.put(numbered(number), answer(partition=partition, model=model, version=version))
        await written(store, 4)
        now = time.time()

        async def voids(purge: Purge) -> set[int]:
            before = await kept(database_url)
            count = await store.purge([purge])
            gone = set(before) - set(await kept(database_url))
            assert len(gone) == count
            return {int(key, 16) for key in gone}

        assert await voids(Purge(now - 10)) == set()
        assert await voids(Purge(now, key_prefix="%")) == set()
        assert await voids(Purge(now, tenant="b", model="m")) == {1}
        assert await voids(Purge(now, model="n", key_prefix="00")) == {2}
        assert await voids(Purge(now, version="v2", key_prefix=numbered(0).hex())) == set()
        assert await voids(Purge(now, version="v2")) == {3}
        assert await voids(Purge(now)) == {0}


async def test_a_full_disk_is_told_once_and_what_is_there_is_read(tmp_path: Path) -> None:
    """Answers are dropped and counted."""
    pages = {"max": 60}

    def limit(engines: Engines) -> None:
        def on_begin(connection: object) -> None:
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages['max']}")  # type: ignore[attr-defined]

        event.listen(engines.writing.sync_engine, "begin", on_begin)

    with capture_logs() as logged:
        async with opened(f"sqlite:///{tmp_path / 'answers.db'}", change=limit) as store:
            store.put(KEY, answer())
            await written(store)
            async with asyncio.timeout(5):
                while not store.stats.dropped:
                    store.put(numbered(store.stats.written), answer(b"x" * 2_000 + bytes(range(256)) * 100))
                    await asyncio.sleep(0.01)
            assert await store.get(KEY) is not None
            pages["max"] = 100_000
            async with asyncio.timeout(5):
                count = store.stats.written
                while store.stats.written == count:
                    store.put(OTHER, answer())
                    await asyncio.sleep(0.02)
    assert [line["event"] for line in logged] == [NO_WRITES, WRITES]
    assert logged[0]["error"] == "SQLITE_FULL"


async def test_a_file_that_another_process_holds_costs_no_read(tmp_path: Path) -> None:
    """Writes are dropped until it lets go."""
    path = tmp_path / "answers.db"
    async with opened(f"sqlite:///{path}") as store:
        store.put(KEY, answer())
        await written(store)
        with capture_logs() as logged:
            holder = sqlite3.connect(path, isolation_level=None)
            holder.execute("BEGIN IMMEDIATE")
            store.put(OTHER, answer())
            began = time.monotonic()
            assert await store.get(KEY) is not None
            assert time.monotonic() - began < READ_WITHIN_S
            async with asyncio.timeout(5):
                while not store.stats.dropped:  # noqa: ASYNC110 - the store has no event for tests
                    await asyncio.sleep(0.02)
            assert await store.sweep() == 0
            holder.execute("ROLLBACK")
            holder.close()
        assert [(line["event"], line["error"]) for line in logged] == [(NO_WRITES, "SQLITE_BUSY")]


@pytest.mark.parametrize("content", [b"my diary\n" * 200, None], ids=["no database", "a folder"])
async def test_a_path_that_cannot_be_used_is_told_and_nothing_else(
    tmp_path: Path, content: bytes | None
) -> None:
    """No request notices, nothing is overwritten."""
    path = tmp_path / "answers.db"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with capture_logs() as logged:
        store = DatabaseStore(engines_for(f"sqlite:///{path}"), clocks, structlog.get_logger())
        store.start()
        for _ in range(20):
            assert await store.get(KEY) is None
            store.put(KEY, answer())
            await asyncio.sleep(0.005)
        await store.close()
    assert [line["event"] for line in logged] == [AWAY]
    assert content is None or path.read_bytes() == content


async def test_a_frozen_server_costs_a_few_moments_and_then_nothing(postgres: PostgresServer) -> None:
    """Told once; used again when it goes on."""
    async with opened(postgres.new_database()) as store:
        await fill(store, range(10))
        with capture_logs() as logged:
            postgres.freeze()
            try:
                took: list[float] = []
                async with asyncio.timeout(10):
                    while not store.stats.failures or len(took) < 300:
                        began = time.monotonic()
                        assert await store.get(numbered(len(took) % 10)) is None
                        took.append(time.monotonic() - began)
                        store.put(KEY, answer())
                        await asyncio.sleep(0.002)
                assert len([took_s for took_s in took if took_s > READ_WITHIN_S / 2]) <= LATE_WHEN_BUSY + 1
                assert statistics.median(took) < 0.001
            finally:
                postgres.thaw()
            await used(store)
        assert [line["event"] for line in logged] == [AWAY, BACK]
        found = await store.get(numbered(1))
        assert found is not None


async def test_a_server_that_stops_is_missed_by_nobody(postgres: PostgresServer) -> None:
    """It is used again when it is back, by new connections."""
    url = postgres.new_database()
    async with opened(url) as store:
        await fill(store, range(10))
        with capture_logs() as logged:
            await asyncio.to_thread(postgres.stop)
            try:
                for number in range(100):
                    assert await store.get(numbered(number % 10)) is None
                    store.put(KEY, answer())
                    await asyncio.sleep(0.001)
            finally:
                await asyncio.to_thread(postgres.start)
            await used(store)
        assert [line["event"] for line in logged] == [AWAY, BACK]
        assert await store.get(numbered(1)) is not None


async def test_a_user_who_may_not_make_tables_uses_one_that_is_there(postgres: PostgresServer) -> None:
    """As an administrator prepares it."""
    url = postgres.new_database()
    schema = url.rpartition("=")[2]
    async with opened(url):
        engines = engines_for(url)
        async with engines.writing.begin() as connection:
            await connection.exec_driver_sql("CREATE ROLE reader LOGIN PASSWORD 'reader'")
            await connection.exec_driver_sql(f"GRANT USAGE ON SCHEMA {schema} TO reader")
            await connection.exec_driver_sql(
                f"GRANT SELECT, INSERT, UPDATE, DELETE ON {ANSWERS.name} TO reader"
            )
        await engines.writing.dispose()
    async with opened(url.replace(f"outrigger:{postgres.password}", "reader:reader")) as store:
        await fill(store, range(3))
        assert store.stats.failures == 0
    engines = engines_for(url)
    async with engines.reading.connect() as connection:
        assert await connection.scalar(select(func.count()).select_from(ANSWERS)) == 3
    await engines.reading.dispose()
