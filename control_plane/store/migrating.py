"""Bringing a database's tables to this build's form, in a transaction that the caller holds the lock of."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from control_plane.registry.errors import StoreOpenError

MIGRATIONS: Final = Path(__file__).parent / "migrations"


def migrate(connection: Connection) -> None:
    """Run what is missing, inside the transaction of `connection`.

    Raises:
        StoreOpenError: a newer build wrote this database.
    """
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
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
