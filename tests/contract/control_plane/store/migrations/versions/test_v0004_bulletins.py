"""The migration that brings bulletins, there and back."""

from datetime import UTC, datetime

from alembic import command
from sqlalchemy import Connection, inspect

from control_plane.registry.ports import Bulletin
from control_plane.store.migrating import alembic_config
from control_plane.store.sql_store import SqlStore

NOW = datetime(2030, 1, 1, tzinfo=UTC)


async def test_bulletins_can_be_undone_alone(store: SqlStore) -> None:
    """Everything else stays; done again, the table is empty."""

    def back(connection: Connection) -> list[str]:
        command.downgrade(alembic_config(connection), "0003")
        return inspect(connection).get_table_names()

    async with store.write() as tx:
        await tx.add_bulletins([Bulletin("i", "r", "{}", "{}", NOW, NOW)])
        await tx.set_setting("a", b"1")
    async with store._engine.connect() as connection:
        await store._database.lock(connection)
        assert "bulletins" not in await connection.run_sync(back)
        await connection.commit()
    await store.open()
    async with store.read() as reading:
        assert await reading.bulletins() == []
        assert await reading.setting("a") == b"1"
