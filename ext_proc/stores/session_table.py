"""The table of sessions in a database, and the statements about it (no I/O).

Its name holds the version of its columns, so that processors of several versions share one database.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Delete,
    Double,
    Index,
    LargeBinary,
    MetaData,
    String,
    Table,
    bindparam,
    delete,
    func,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

# One statement removes so many rows: another writer's turn comes soon.
SWEEP_ROWS: Final = 500

SESSIONS: Final = Table(
    "outrigger_sessions_v1",
    MetaData(),
    Column("key", String(64), primary_key=True),
    Column("last", BigInteger, nullable=False),
    Column("floor", BigInteger, nullable=False),
    Column("records", LargeBinary, nullable=False),
    Column("expires_at", Double, nullable=False),
)
EXPIRES: Final = Index("outrigger_sessions_v1_expires", SESSIONS.c.expires_at)
FIND: Final = select(SESSIONS.c.last, SESSIONS.c.floor, SESSIONS.c.records).where(
    SESSIONS.c.key == bindparam("wanted"), SESSIONS.c.expires_at > bindparam("now")
)
# What is long stays where it is.
USE: Final = update(SESSIONS).where(SESSIONS.c.key == bindparam("wanted"))
# PostgreSQL: whoever has it is alone with one session, be that there already or not.
ALONE: Final = select(func.pg_advisory_xact_lock(bindparam("lock")))


def lock_of(key: bytes) -> int:
    """Return the number of a session's lock."""
    return int.from_bytes(key[:8], "big", signed=True)


def upsert(dialect: str) -> Any:
    """Return the statement that keeps a row in place of an older one; `dialect` is SQLAlchemy's name."""
    insert: Any = sqlite.insert if dialect == "sqlite" else postgresql.insert
    statement = insert(SESSIONS)
    replaced = {
        column.name: statement.excluded[column.name] for column in SESSIONS.c if not column.primary_key
    }
    return statement.on_conflict_do_update(index_elements=[SESSIONS.c.key], set_=replaced)


def remove_expired(now: float) -> Delete:
    """Return the statement that removes `SWEEP_ROWS` rows at most that have expired."""
    # What is in use is left alone, so that no two processors wait for each other.
    old = (
        select(SESSIONS.c.key)
        .where(SESSIONS.c.expires_at <= now)
        .limit(SWEEP_ROWS)
        .with_for_update(skip_locked=True)
    )
    return delete(SESSIONS).where(SESSIONS.c.key.in_(old))
