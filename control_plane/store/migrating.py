"""Bringing a database's tables to this build's form, in a transaction that the caller holds the lock of.

An empty database gets the tables as they are now, which is what the migrations lead to. Alembic carries a
database of an older build over, and is loaded for that only: it would be a tenth of a start.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    insert,
    inspect,
    select,
)

from control_plane.registry.errors import StoreOpenError
from control_plane.registry.ports import Epochs
from control_plane.store.tables import SCHEMA, epochs, metadata

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATIONS: Final = Path(__file__).parent / "migrations"

# Alembic's own, which says how far a database is.
_ALEMBIC: Final = MetaData()
_VERSIONS: Final = Table(
    "alembic_version",
    _ALEMBIC,
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


def migrate(connection: Connection) -> None:
    """Make or change what is missing, inside the transaction of `connection`.

    Raises:
        StoreOpenError: a newer build wrote this database.
    """
    tables = inspect(connection).get_table_names()
    if not tables:
        make(connection)
    elif _VERSIONS.name not in tables or _schemas(connection) != {SCHEMA}:
        upgrade(connection)


def make(connection: Connection) -> None:
    """Make every table in an empty database, and the counters at 1."""
    metadata.create_all(connection, checkfirst=False)
    connection.execute(insert(epochs), [{"name": one.name, "epoch": 1} for one in fields(Epochs)])
    _ALEMBIC.create_all(connection, checkfirst=False)
    connection.execute(insert(_VERSIONS).values(version_num=SCHEMA))


def _schemas(connection: Connection) -> set[str]:
    return set(connection.execute(select(_VERSIONS.c.version_num)).scalars())


def upgrade(connection: Connection) -> None:
    """Run the migrations that are missing.

    Raises:
        StoreOpenError: a newer build wrote this database.
    """
    from alembic import command  # noqa: PLC0415 - slow to load
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = alembic_config(connection)
    script = ScriptDirectory.from_config(config)
    known = {step.revision for step in script.walk_revisions()}
    found = set(MigrationContext.configure(connection).get_current_heads())
    if found - known:
        newest = max(found - known)
        raise StoreOpenError(
            f"the database was written by a newer Outrigger (its schema is {newest}, this build knows up to "
            f"{max(known)}); run that version, or put a backup from before back"
        )
    if found != set(script.get_heads()):
        command.upgrade(config, "head")


def alembic_config(connection: Connection) -> Config:
    """Return Alembic's configuration for the migrations of this package on `connection`."""
    from alembic.config import Config  # noqa: PLC0415 - slow to load

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
