"""SQLite: one file, one machine. Durable against kill -9 and power loss (WAL, synchronous=FULL)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, event
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.util import await_only

from control_plane.registry.errors import StoreOpenError

BUSY_MS: Final = 2_000
"""How long a writer waits for another process's."""

_WRITES: Final = "outrigger_writes"
_WAL_PAUSE_S: Final = 0.01
_PRAGMAS: Final = (
    f"PRAGMA busy_timeout={BUSY_MS}",
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
)


class Sqlite:
    """How SQLAlchemy reaches a SQLite file, which is made for its owner alone."""

    name: Final = "sqlite"

    def __init__(self, path: Path) -> None:
        self._path = path

    def engine(self) -> AsyncEngine:
        """Make the file if it is not there, and an engine for it.

        Raises:
            StoreOpenError: the file cannot be made.
        """
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            reason = (error.strerror or "unusable").lower()
            raise StoreOpenError(
                f"{self._path} cannot be opened ({reason}); name another folder with --data-dir"
            ) from error
        engine = create_async_engine(f"sqlite+aiosqlite:///{self._path}", hide_parameters=True)
        event.listen(engine.sync_engine, "connect", _on_connect)
        event.listen(engine.sync_engine, "begin", _on_begin)
        return engine

    async def lock(self, connection: AsyncConnection) -> None:
        """Begin as a writer: SQLite has one at a time."""
        await connection.execution_options(**{_WRITES: True})
        await connection.begin()

    async def announce(self, connection: AsyncConnection) -> None:
        """Do nothing: other processes of this machine poll."""

    async def watch(self, wake: Callable[[], None]) -> None:
        """Wait for ever: nobody announces anything."""
        await asyncio.Event().wait()


def _on_connect(connection: Any, record: Any) -> None:
    # The driver's own idea of transactions would begin them late; ours are begun below.
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
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
