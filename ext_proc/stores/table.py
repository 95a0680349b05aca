"""The table of a cache's database, and the statements about it (no I/O).

Its name holds the version of its columns, so that processors of several versions share one database.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import (
    Column,
    ColumnElement,
    Delete,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    bindparam,
    delete,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite

from ext_proc.contract.snapshot import Purge
from ext_proc.stores.entry_store import Entry

# One statement removes so many rows: another writer's turn comes soon.
SWEEP_ROWS: Final = 500

ANSWERS: Final = Table(
    "outrigger_answers_v1",
    MetaData(),
    Column("key", String(64), primary_key=True),
    Column("entry", LargeBinary, nullable=False),
    Column("bytes", Integer, nullable=False),
    Column("written_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("asked_at", Double, nullable=False),
    Column("partition", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("version", Text, nullable=False),
)
INDEXES: Final = (
    Index("outrigger_answers_v1_expires", ANSWERS.c.expires_at),
    # Holds all that is needed to count what there is.
    Index("outrigger_answers_v1_written", ANSWERS.c.written_at, ANSWERS.c.bytes),
)
FIND: Final = select(ANSWERS.c.key, ANSWERS.c.entry).where(
    ANSWERS.c.key.in_(bindparam("wanted", expanding=True))
)


def upsert(dialect: str) -> Any:
    """Return the statement that keeps rows, each in place of an older one; `dialect` is SQLAlchemy's name."""
    insert: Any = sqlite.insert if dialect == "sqlite" else postgresql.insert
    statement = insert(ANSWERS)
    replaced = {
        column.name: statement.excluded[column.name] for column in ANSWERS.c if not column.primary_key
    }
    return statement.on_conflict_do_update(index_elements=[ANSWERS.c.key], set_=replaced)


def row(entry: Entry, written_at: float) -> dict[str, object]:
    """Return the row of `entry`, written at `written_at` (seconds since the epoch)."""
    return {
        "key": entry.key.hex(),
        "entry": entry.data,
        "bytes": len(entry.data),
        "written_at": written_at,
        "expires_at": entry.expires_at,
        "asked_at": entry.asked_at,
        "partition": entry.answer.partition,
        "model": entry.answer.model,
        "version": entry.answer.version,
    }


def remove_some(condition: ColumnElement[bool]) -> Delete:
    """Return the statement that removes `SWEEP_ROWS` rows of that kind at most."""
    # What is being written anew is left alone, so that no two processors wait for each other.
    keys = select(ANSWERS.c.key).where(condition).limit(SWEEP_ROWS).with_for_update(skip_locked=True)
    return delete(ANSWERS).where(ANSWERS.c.key.in_(keys))


def meant(purge: Purge) -> ColumnElement[bool]:
    """Return which rows `purge` voids."""
    condition: ColumnElement[bool] = ANSWERS.c.asked_at <= purge.at_s
    for column, wanted in (
        (ANSWERS.c.partition, purge.tenant),
        (ANSWERS.c.model, purge.model),
        (ANSWERS.c.version, purge.version),
    ):
        if wanted is not None:
            condition &= column == wanted
    if purge.key_prefix is not None:
        condition &= ANSWERS.c.key.startswith(purge.key_prefix, autoescape=True)
    return condition
