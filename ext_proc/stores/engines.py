"""How SQLAlchemy reaches the database of a cache: a SQLite file or PostgreSQL.

Each has an engine for reading, whose statements stand alone, and one for writing, whose transactions begin as
a writer's. Neither connects before it is used. No error quotes a URL.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import asyncpg  # type: ignore[import-untyped]  # has no type information
from sqlalchemy import Connection, event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.util import await_only

CONNECT_S: Final = 1.0
STATEMENT_S: Final = 2.0
CLOSE_S: Final = 0.25
# A sidecar is one of thousands: it has few connections.
READERS: Final = 2
BUSY_MS: Final = 500
_WAL_PAUSE_S: Final = 0.01
_PRAGMAS: Final = (
    f"PRAGMA busy_timeout={BUSY_MS}",
    # What a power cut takes of a cache is asked again.
    "PRAGMA synchronous=NORMAL",
    "PRAGMA journal_size_limit=67108864",
)
_POSTGRES: Final = ("postgresql://", "postgres://", "postgresql+asyncpg://")
_SQLITE: Final = "sqlite:///"


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines of one database; `prepare` makes its file where it is one (raises OSError)."""

    reading: AsyncEngine
    writing: AsyncEngine
    prepare: Callable[[], None]


def engines_for(url: str) -> Engines:
    """Return the engines of `postgresql://USER:PASSWORD@HOST/NAME` or `sqlite:///PATH`.

    Raises:
        ValueError: no such URL; the message does not quote it, it may hold a password.
    """
    for scheme in _POSTGRES:
        if url.startswith(scheme):
            return _postgres(f"postgresql://{url.removeprefix(scheme)}")
    if url.startswith(_SQLITE) and len(url) > len(_SQLITE):
        return _sqlite(Path(url.removeprefix(_SQLITE)))
    raise ValueError("the cache's database must be postgresql://USER:PASSWORD@HOST/NAME or sqlite:///PATH")


def _sqlite(path: Path) -> Engines:
    def prepare() -> None:
        # Answers are their owner's alone.
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))

    url = f"sqlite+aiosqlite:///{path}"
    reading = create_async_engine(
        url,
        hide_parameters=True,
        isolation_level="AUTOCOMMIT",
        pool_size=READERS,
        max_overflow=0,
        pool_timeout=CONNECT_S,
    )
    writing = create_async_engine(
        url, hide_parameters=True, pool_size=1, max_overflow=0, pool_timeout=CONNECT_S
    )
    for engine in (reading, writing):
        event.listen(engine.sync_engine, "connect", _on_connect)
    event.listen(writing.sync_engine, "begin", _on_begin)
    return Engines(reading, writing, prepare)


def _on_connect(connection: Any, record: Any) -> None:
    # The driver's own idea of transactions would begin them late.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(pragma)
    _turn_to_wal(cursor)
    cursor.close()


def _turn_to_wal(cursor: Any) -> None:
    # SQLite does not wait here for another process that turns to WAL too: it says "locked" at once.
    for _ in range(int(BUSY_MS / 1000 / _WAL_PAUSE_S)):
        with contextlib.suppress(sqlite3.OperationalError):
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        await_only(asyncio.sleep(_WAL_PAUSE_S))
    cursor.execute("PRAGMA journal_mode=WAL")


def _on_begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


class _Connection(asyncpg.Connection):  # type: ignore[misc]  # untyped
    """A connection that says goodbye to a server that answers, and does not wait for one that is frozen."""

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109  # asyncpg's signature
        """Close, within `CLOSE_S` even if more is allowed."""
        await super().close(timeout=CLOSE_S if timeout is None else min(timeout, CLOSE_S))


def _postgres(dsn: str) -> Engines:
    async def connect() -> Any:
        try:
            return await asyncpg.connect(
                dsn,
                timeout=CONNECT_S,
                command_timeout=STATEMENT_S,
                connection_class=_Connection,
                server_settings={"application_name": "outrigger cache"},
            )
        except (ValueError, asyncpg.ClientConfigurationError):
            # Their words quote the URL.
            raise ValueError("the URL of the cache's database is not understood") from None

    def engine(**options: Any) -> AsyncEngine:
        return create_async_engine(
            "postgresql+asyncpg://",
            async_creator=connect,
            hide_parameters=True,
            max_overflow=0,
            pool_timeout=CONNECT_S,
            **options,
        )

    return Engines(engine(isolation_level="AUTOCOMMIT", pool_size=READERS), engine(pool_size=1), lambda: None)
