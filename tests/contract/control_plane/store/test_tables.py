"""The tables as this build knows them are what the migrations make."""

from datetime import UTC, datetime, timedelta, timezone

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection
from sqlalchemy.engine.default import DefaultDialect

from control_plane.store.sql_store import SqlStore
from control_plane.store.tables import UtcDateTime, metadata


async def test_the_migrations_lead_to_exactly_these_tables(store: SqlStore) -> None:
    """A change of the tables without a migration fails here."""

    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection)
        return list(compare_metadata(context, metadata))

    async with store._engine.connect() as connection:
        assert await connection.run_sync(differences) == []


def test_moments_are_kept_in_utc_and_come_back_aware() -> None:
    """SQLite gives back what it was given without a zone."""
    kind = UtcDateTime()
    local = datetime(2030, 1, 1, 8, tzinfo=timezone(timedelta(hours=8)))
    utc = datetime(2030, 1, 1, tzinfo=UTC)
    kept = kind.process_bind_param(local, DefaultDialect())
    assert kept is not None
    assert (kept, kept.tzinfo) == (utc, UTC)
    assert kind.process_result_value(utc.replace(tzinfo=None), DefaultDialect()) == utc
    assert kind.process_bind_param(None, DefaultDialect()) is None
