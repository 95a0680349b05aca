"""Where sessions are kept: in Redis if there is one, else in the database that is named, else in memory."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from structlog.typing import FilteringBoundLogger

from ext_proc.answers import Clocks
from ext_proc.sessions.records import STEP, Opened, Record
from ext_proc.stages.session import Sessions
from ext_proc.stores.memory_sessions import MemorySessions
from ext_proc.stores.neighbour import Away
from ext_proc.stores.shared_sessions import Far, SharedSessions

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from ext_proc.stores.database_sessions import DatabaseSessions


def clocks() -> Clocks:
    """Return the time of day and this process's own."""
    return Clocks(time.time(), time.monotonic())


class DatabaseInTime:
    """A `Far` store that is opened in the background: its modules alone take half a second to load."""

    def __init__(self, url: str, log: FilteringBoundLogger) -> None:
        self._url = url
        self._log = log
        self._store: DatabaseSessions | None = None
        self._opening = asyncio.get_running_loop().create_task(self._open(), name="session database")

    async def renew(
        self, key: bytes, records: Sequence[Record], *, ttl_ms: int, keep: int, draw: bool
    ) -> Opened:
        """Do it in the database. Raises Away: it is not open, or does not answer in time."""
        if self._store is None:
            raise Away
        return await self._store.renew(key, records, ttl_ms=ttl_ms, keep=keep, draw=draw)

    async def erase(self, key: bytes, *, ttl_ms: int) -> None:
        """Do it in the database. Raises Away: it is not open, or does not answer in time."""
        if self._store is None:
            raise Away
        await self._store.erase(key, ttl_ms=ttl_ms)

    async def close(self) -> None:
        """Let it go."""
        self._opening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._opening
        if self._store is not None:
            await self._store.close()

    async def _open(self) -> None:
        try:
            store = await asyncio.to_thread(_database, self._url, self._log)
        except Exception as error:
            # Without it each processor goes on with the sessions that it remembers.
            self._log.error("the sessions' database cannot be used", error=type(error).__name__)
        else:
            self._store = store
            await store.open()


def open_sessions(
    client: Redis | None, database: str | None, log: FilteringBoundLogger, owned: AsyncExitStack
) -> Sessions:
    """Return the store in the Redis of `client`, else in the database at `database`; `owned` closes it."""
    memory = MemorySessions(time.monotonic, salt=1 + secrets.randbelow(STEP - 1), wall_s=time.time)
    far: Far
    if client is not None:
        from ext_proc.stores.redis_sessions import RedisSessions  # noqa: PLC0415

        far = RedisSessions(client, clocks, log)
    elif database is not None:
        far = DatabaseInTime(database, log)
    else:
        return memory
    sessions = SharedSessions(far, memory)
    owned.push_async_callback(sessions.close)
    return sessions


def _database(url: str, log: FilteringBoundLogger) -> DatabaseSessions:
    from ext_proc.stores.database_sessions import DatabaseSessions  # noqa: PLC0415
    from ext_proc.stores.engines import engines_for  # noqa: PLC0415

    return DatabaseSessions(engines_for(url), clocks, log)
