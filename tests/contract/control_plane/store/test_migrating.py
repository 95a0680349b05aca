"""Migrations run once, in the transaction that asked for them."""

from pathlib import Path

from sqlalchemy import Connection, inspect

from control_plane.store.migrating import migrate
from control_plane.store.opening import store_for
from control_plane.store.sql_store import SqlStore


async def test_migrating_again_changes_nothing(store: SqlStore) -> None:
    """Every start does it."""
    async with store.write() as tx:
        await tx.set_setting("a", b"1")
    await store.open()
    async with store.read() as reading:
        assert await reading.setting("a") == b"1"


async def test_a_migration_that_is_not_committed_leaves_no_table(database: str, tmp_path: Path) -> None:
    """A crash in the middle is as if it had not begun."""

    def names(connection: Connection) -> list[str]:
        return inspect(connection).get_table_names()

    store = store_for(database, tmp_path)
    async with store._engine.connect() as connection:
        await store._database.lock(connection)
        await connection.run_sync(migrate)
        await connection.rollback()
        assert await connection.run_sync(names) == []
    await store.close()
