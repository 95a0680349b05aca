"""The migration that brings what replicas tell each other, there and back."""

from alembic import command
from sqlalchemy import Connection, inspect

from control_plane.registry.replicas import ReplicaRow
from control_plane.store.migrating import alembic_config
from control_plane.store.sql_store import SqlStore

TABLES = {"replicas", "ended_sessions"}


async def test_it_can_be_undone_and_done_again(store: SqlStore) -> None:
    """What replicas told goes with the tables, and is told again."""

    def back(connection: Connection) -> set[str]:
        command.downgrade(alembic_config(connection), "0005")
        return TABLES & set(inspect(connection).get_table_names())

    async with store.shared() as rows:
        await rows.put_replica(ReplicaRow("a", "a", 1, 1))
    async with store._engine.connect() as connection:
        await store._database.lock(connection)
        assert await connection.run_sync(back) == set()
        await connection.commit()
    await store.open()
    async with store.shared() as rows:
        assert await rows.replicas() == []
        assert await rows.ended_sessions() == {}
