"""The first migration, there and back."""

from alembic import command
from sqlalchemy import Connection, inspect

from control_plane.store.migrating import alembic_config
from control_plane.store.sql_store import SqlStore


async def test_the_first_migration_can_be_undone(store: SqlStore) -> None:
    """Nothing but Alembic's own table is left, and it can be done again."""

    def back(connection: Connection) -> list[str]:
        command.downgrade(alembic_config(connection), "base")
        return inspect(connection).get_table_names()

    async with store._engine.connect() as connection:
        await store._database.lock(connection)
        assert await connection.run_sync(back) == ["alembic_version"]
        await connection.commit()
    await store.open()
    async with store.read() as reading:
        assert (await reading.epochs()).keys == 1
