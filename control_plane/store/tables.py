"""The tables, as this build knows them. A change here needs a migration beside it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
)


class UtcDateTime(TypeDecorator[datetime]):
    """A moment. Kept in UTC, since SQLite knows no zones; always aware outside."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Bring a moment to UTC."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Say that what was kept is UTC."""
        if value is None or value.tzinfo is not None:
            return value
        return value.replace(tzinfo=UTC)


metadata: Final = MetaData()
SCHEMA: Final = "0006"
"""The last migration: the one that leads to these tables."""

revisions: Final = Table(
    "revisions",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("at", UtcDateTime, nullable=False),
    Column("actor", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("of_documents", Boolean, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("rolled_back_to", BigInteger),
    Index("revisions_by_state", "state", "of_documents", "revision"),
)

# What each revision made of each document; without content it was deleted. `owner` is null in rows of builds
# that knew no owners: such a document has the owner that it had.
document_versions: Final = Table(
    "document_versions",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("revision", BigInteger, ForeignKey("revisions.revision"), primary_key=True),
    Column("action", Text, nullable=False),
    Column("content", LargeBinary),
    Column("owner", Text),
    Index("document_versions_by_revision", "revision"),
)

consumer_keys: Final = Table(
    "consumer_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("consumer", Text, nullable=False),
    Column("digest", Text, nullable=False, unique=True),
    Column("hint", Text, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),
)

tokens: Final = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("scopes", Text, nullable=False),  # JSON, a list
    Column("digest", LargeBinary, nullable=False),
    Column("salt", LargeBinary, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),
)

secrets: Final = Table(
    "secrets",
    metadata,
    Column("name", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("sealed", LargeBinary, nullable=False),
    Column("changed_at", UtcDateTime, nullable=False),
    Column("owner", Text),
)

audit: Final = Table(
    "audit",
    metadata,
    # SQLite counts by itself in an INTEGER key only.
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("at", UtcDateTime, nullable=False),
    Column("actor", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("revision", BigInteger),
    Column("outcome", Text, nullable=False),
    Column("detail", Text, nullable=False),
)

purges: Final = Table(
    "purges",
    metadata,
    Column("position", Integer, primary_key=True, autoincrement=False),  # the oldest first
    Column("at_s", Double, nullable=False),
    Column("tenant", Text),
    Column("model", Text),
    Column("version", Text),
    Column("key_prefix", Text),
)

# How far each Release is. `evidence` is what is known of its versions, if anything is.
releases: Final = Table(
    "releases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("standing", LargeBinary, nullable=False),  # JSON
    Column("evidence", LargeBinary),  # JSON
)

# What webhooks are still to be told, the oldest first. `target` and `body` are JSON.
bulletins: Final = Table(
    "bulletins",
    metadata,
    # SQLite counts by itself in an INTEGER key only.
    Column("position", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("release", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("made_at", UtcDateTime, nullable=False),
    Column("due_at", UtcDateTime, nullable=False),
    Column("attempts", Integer, nullable=False),
)

# The replicas of the control plane, and what each tells the others: whether it is there (`beat` grows), which
# revision all its sidecars obey, its sidecars (`views`), and what they counted (`totals`).
replicas: Final = Table(
    "replicas",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("beat", BigInteger, nullable=False),
    Column("obeys", BigInteger, nullable=False),
    Column("views_edition", BigInteger, nullable=False),
    Column("views", LargeBinary, nullable=False),
    Column("totals_edition", BigInteger, nullable=False),
    Column("totals", LargeBinary, nullable=False),
)

# Sessions of the dashboard that were logged out, until they would have ended by themselves.
ended_sessions: Final = Table(
    "ended_sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("until_s", Double, nullable=False),
)

settings: Final = Table(
    "settings",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)

# One counter for each thing that replicas keep in memory.
epochs: Final = Table(
    "epochs",
    metadata,
    Column("name", Text, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
)
