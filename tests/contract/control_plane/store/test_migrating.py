"""Tables are made or migrated once, in the transaction that asked for it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, select

from control_plane.store.migrating import alembic_config, make, upgrade
from control_plane.store.opening import store_for
from control_plane.store.sql_store import SqlStore
from control_plane.store.tables import SCHEMA, epochs


async def test_migrating_again_changes_nothing(store: SqlStore) -> None:
    """Every start does it."""
    async with store.write() as tx:
        await tx.set_setting("a", b"1")
    await store.open()
    async with store.read() as reading:
        assert await reading.setting("a") == b"1"


@pytest.mark.parametrize("way", [make, upgrade])
async def test_what_is_not_committed_leaves_no_table(
    database: str, tmp_path: Path, way: Callable[[Connection], None]
) -> None:
    """A crash in the middle is as if it had not begun."""

    def names(connection: Connection) -> list[str]:
        return inspect(connection).get_table_names()

    store = store_for(database, tmp_path)
    async with store._engine.connect() as connection:
        await store._database.lock(connection)
        await connection.run_sync(way)
        await connection.rollback()
        assert await connection.run_sync(names) == []
    await store.close()


async def test_an_empty_database_gets_what_the_migrations_lead_to(database: str, tmp_path: Path) -> None:
    """Made at once or step by step, tables, keys, indexes and first rows are the same to the letter."""
    store = store_for(database, tmp_path)
    described = []
    async with store._engine.connect() as connection:
        for way in (make, upgrade):
            await store._database.lock(connection)
            await connection.run_sync(way)
            described.append(await connection.run_sync(_description))
            await connection.rollback()
    await store.close()
    assert described[0] == described[1]
    assert {"alembic_version", "epochs", "revisions"} <= described[0].keys()


def _description(connection: Connection) -> dict[str, object]:
    found = inspect(connection)
    tables: dict[str, object] = {
        name: (
            [{**column, "type": repr(column["type"])} for column in found.get_columns(name)],
            found.get_pk_constraint(name),
            found.get_foreign_keys(name),
            sorted(found.get_indexes(name), key=str),
            sorted(found.get_unique_constraints(name), key=str),
            found.get_check_constraints(name),
        )
        for name in found.get_table_names()
    }
    rows = [tuple(row) for row in connection.execute(select(epochs).order_by(epochs.c.name))]
    schema = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalars().all()
    return tables | {"rows": rows, "schema": schema}


async def test_the_schema_is_the_last_migrations(store: SqlStore) -> None:
    """Whoever adds a migration says so in `tables`."""

    def heads(connection: Connection) -> list[str]:
        return ScriptDirectory.from_config(alembic_config(connection)).get_heads()

    async with store._engine.connect() as connection:
        assert await connection.run_sync(heads) == [SCHEMA]


def test_a_start_loads_no_migrations_and_no_other_database(tmp_path: Path) -> None:
    """Neither the first start on SQLite nor the next one waits for Alembic or PostgreSQL's driver."""
    script = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from control_plane.store.opening import store_for\n"
        "async def start():\n"
        "    store = store_for(None, Path(sys.argv[1]))\n"
        "    await store.open()\n"
        "    await store.close()\n"
        "asyncio.run(start())\n"
        "asyncio.run(start())\n"
        "print(sorted({'alembic', 'asyncpg', 'mako'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "[]"
