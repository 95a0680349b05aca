"""The Store, over SQLite and PostgreSQL alike: transactions, locks, opening."""

import asyncio
from pathlib import Path

import pytest

from control_plane.registry.errors import StoreOpenError
from control_plane.registry.ports import Epochs
from control_plane.store.opening import store_for
from control_plane.store.sql_store import SqlStore


async def test_a_new_database_begins_with_every_counter_at_one(store: SqlStore) -> None:
    """A replica that knows nothing (counters at 0) reads everything at its start."""
    async with store.read() as reading:
        assert await reading.epochs() == Epochs(1, 1, 1, 1)


async def test_what_a_block_wrote_is_there_only_when_it_ended_well(store: SqlStore) -> None:
    """All or nothing."""
    with pytest.raises(ZeroDivisionError):
        async with store.write() as tx:
            await tx.set_setting("a", b"1")
            raise ZeroDivisionError
    async with store.read() as reading:
        assert await reading.setting("a") is None
    async with store.write() as tx:
        await tx.set_setting("a", b"2")
    async with store.read() as reading:
        assert await reading.setting("a") == b"2"


async def test_writers_of_two_replicas_wait_for_each_other(database: str, tmp_path: Path) -> None:
    """Each sees what the one before wrote: no increment is lost."""
    stores = [store_for(database, tmp_path) for _ in range(2)]
    await stores[0].open()

    async def add(store: SqlStore) -> None:
        async with store.write() as tx:
            count = int(await tx.setting("n") or b"0")
            await tx.set_setting("n", str(count + 1).encode())

    await asyncio.gather(*(add(store) for store in stores for _ in range(10)))
    async with stores[0].read() as reading:
        assert await reading.setting("n") == b"20"
    for store in stores:
        await store.close()


async def test_replicas_that_open_an_empty_database_at_once_all_succeed(
    database: str, tmp_path: Path
) -> None:
    """One migrates, the others find it done."""
    stores = [store_for(database, tmp_path) for _ in range(4)]
    await asyncio.gather(*(store.open() for store in stores))
    async with stores[3].read() as reading:
        assert (await reading.epochs()).tokens == 1
    for store in stores:
        await store.close()


async def test_a_database_of_a_newer_build_is_refused_in_a_sentence(store: SqlStore) -> None:
    """An old build would not understand what it reads; the sentence says what to do."""
    async with store._engine.begin() as connection:
        await connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreOpenError, match=r"newer Outrigger \(its schema is 9999.*run that version"):
        await store.open()


async def test_a_cancelled_writer_leaves_the_lock_to_the_next(store: SqlStore) -> None:
    """A caller that goes away holds up nobody."""
    held = asyncio.Event()

    async def hold() -> None:
        async with store.write() as tx:
            await tx.set_setting("a", b"1")
            held.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await held.wait()
    task.cancel()
    async with store.write() as tx:
        assert await tx.setting("a") is None
    assert task.cancelled()
