"""The migration that brings Releases, there and back."""

from alembic import command
from sqlalchemy import Connection, inspect

from control_plane.releases.machine import Plan, begun
from control_plane.store.migrating import alembic_config
from control_plane.store.sql_store import SqlStore


async def test_releases_can_be_undone_alone(store: SqlStore) -> None:
    """Everything else stays; done again, the table is empty."""

    def back(connection: Connection) -> list[str]:
        command.downgrade(alembic_config(connection), "0002")
        return inspect(connection).get_table_names()

    async with store.write() as tx:
        await tx.put_release("r", begun(Plan((5.0,), 60.0), 1, 0.0))
        await tx.set_setting("a", b"1")
    async with store._engine.connect() as connection:
        await store._database.lock(connection)
        assert "releases" not in await connection.run_sync(back)
        await connection.commit()
    await store.open()
    async with store.read() as reading:
        assert await reading.releases() == {}
        assert await reading.setting("a") == b"1"
