"""The SQLite file: private, durable, one writer, full disks."""

import asyncio
import sqlite3
import stat
from pathlib import Path

import pytest

from control_plane.registry.errors import StorageFullError, StoreOpenError, StoreUnavailableError
from control_plane.store.opening import store_for
from control_plane.store.sql_store import SqlStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file is to be; its folder is not there yet."""
    return tmp_path / "data" / "outrigger.db"


@pytest.fixture
def closed(path: Path) -> SqlStore:
    """A store over `path`, not opened."""
    return store_for(None, path.parent)


async def test_the_file_and_its_folder_are_its_owners_alone(closed: SqlStore, path: Path) -> None:
    """It holds digests of keys; the write-ahead log beside it too."""
    await closed.open()
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    await closed.close()


async def test_a_commit_survives_the_loss_of_power(closed: SqlStore) -> None:
    """Write-ahead log, synced at each commit, references checked."""
    await closed.open()
    async with closed.read() as reading:
        pragmas = [
            (await reading._connection.exec_driver_sql(f"PRAGMA {name}")).scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        ]
    assert pragmas == ["wal", 2, 1]
    await closed.close()


async def test_a_file_that_cannot_be_made_is_told_at_the_start(tmp_path: Path) -> None:
    """A sentence with the path and what to do, no traceback of a driver."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreOpenError, match="--data-dir"):
        store_for(None, tmp_path / "file")


async def test_a_file_that_is_no_database_is_refused(closed: SqlStore, path: Path) -> None:
    """It is not overwritten."""
    diary = b"my diary, do not overwrite\n" * 100
    await asyncio.to_thread(path.write_bytes, diary)
    with pytest.raises(StoreUnavailableError, match="no database"):
        await closed.open()
    assert await asyncio.to_thread(path.read_bytes) == diary
    await closed.close()


async def test_a_writer_of_another_process_is_waited_for_but_not_for_ever(
    closed: SqlStore, path: Path
) -> None:
    """Somebody with the sqlite3 shell open makes a change fail in seconds, not hang."""
    await closed.open()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match="another process holds it"):
        async with asyncio.timeout(10), closed.write():
            pass
    async with closed.read() as reading:
        assert await reading.setting("a") is None
    other.execute("COMMIT")
    async with closed.write() as tx:
        await tx.set_setting("a", b"1")
    other.close()
    await closed.close()


async def test_a_full_disk_changes_nothing_and_heals(closed: SqlStore) -> None:
    """What does not fit is refused as such; with room again the next change goes through."""
    await closed.open()
    async with closed.read() as reading:
        pages = (await reading._connection.exec_driver_sql("PRAGMA page_count")).scalar_one()

    async def put(limit: int, size: int) -> None:
        async with closed.write() as tx:
            await tx._connection.exec_driver_sql(f"PRAGMA max_page_count={limit}")
            await tx.set_setting("a", b"x" * size)

    with pytest.raises(StorageFullError):
        await put(pages + 2, 1_000_000)
    async with closed.read() as reading:
        assert await reading.setting("a") is None
    await put(1_000_000, 1_000_000)
    await closed.close()


async def test_nobody_announces_changes(closed: SqlStore) -> None:
    """Other processes of the machine poll."""
    task = asyncio.create_task(closed.watch(lambda: None))
    await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    await closed.close()
