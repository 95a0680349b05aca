"""Sessions in a database, SQLite or PostgreSQL: one row each, read and written in one transaction.

The table is made at first use, and what has expired is swept in the background.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Final

from sqlalchemy import inspect
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.schema import CreateIndex, CreateTable
from structlog.typing import FilteringBoundLogger

from ext_proc.answers import Clocks
from ext_proc.sessions.records import Kept, Opened, Record, packed, tenths, unpacked
from ext_proc.stores.engines import Engines
from ext_proc.stores.neighbour import Away, Neighbour
from ext_proc.stores.session_table import (
    ALONE,
    EXPIRES,
    FIND,
    SESSIONS,
    SWEEP_ROWS,
    USE,
    lock_of,
    remove_expired,
    upsert,
)

# What a request waits at most before it goes on with what its processor remembers.
WITHIN_S: Final = 0.1
# A turn is kept behind its answer: nobody waits.
WRITE_WITHIN_S: Final = 2.0
# Connecting and making the table.
OPEN_WITHIN_S: Final = 3.0
# Each transaction has the one writing connection; the others wait for their turns.
AT_ONCE: Final = 1
SWEEP_EVERY_S: Final = 60.0
# Any constant that no other application on this database uses: "outr_ses" as bytes.
_MAKING: Final = int.from_bytes(b"outr_ses", "big")


class DatabaseSessions:
    """The `Far` store that is a database. For one event loop.

    Args:
        engines: made by `engines_for`; closed with this.
        clocks: the time of day and this process's own, now.
        log: where trouble is told, once when it begins and once when it is over.
    """

    def __init__(self, engines: Engines, clocks: Callable[[], Clocks], log: FilteringBoundLogger) -> None:
        self._engines = engines
        self._clocks = clocks
        self._is_sqlite = engines.writing.dialect.name == "sqlite"
        self._upsert = upsert(engines.writing.dialect.name)
        self._made: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._neighbour = Neighbour(
            self._ping,
            within_s=WITHIN_S,
            at_once=AT_ONCE,
            clock=lambda: clocks().own,
            log=log,
            opens="the database does not answer; each processor goes on with the sessions that it remembers",
            closes="the database is back; processors share sessions",
        )

    async def open(self) -> None:
        """Connect, make the table, and begin to sweep. Never fails: a database that is away may come."""
        with contextlib.suppress(Away):
            await self._neighbour.ask(self._ping, OPEN_WITHIN_S)
        self._sweeping = asyncio.get_running_loop().create_task(self._sweep_on(), name="session sweep")

    async def renew(
        self, key: bytes, records: Sequence[Record], *, ttl_ms: int, keep: int, draw: bool
    ) -> Opened:
        """Keep `records` too, and of all the last `keep`; return them and, with `draw`, the next number.

        Raises:
            Away: the database does not answer in time.
        """
        change = partial(self._renew, key, tuple(records), ttl_ms / 1000, keep, draw)
        return await self._neighbour.ask(change, WITHIN_S if draw else WRITE_WITHIN_S)

    async def erase(self, key: bytes, *, ttl_ms: int) -> None:
        """Forget the session, and for `ttl_ms` turns of it that are under way. Raises Away."""
        await self._neighbour.ask(partial(self._erase, key, ttl_ms / 1000), WRITE_WITHIN_S)

    async def sweep(self) -> int:
        """Remove what has expired; return how many sessions. Raises Away."""
        removed = 0
        while True:
            rows = await self._neighbour.ask(self._sweep, OPEN_WITHIN_S)
            removed += rows
            if rows < SWEEP_ROWS:
                return removed

    async def close(self) -> None:
        """Let the connections go."""
        tasks = [task for task in (self._sweeping, self._made) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._neighbour.close()
        for engine in (self._engines.reading, self._engines.writing):
            with contextlib.suppress(Exception):  # there is nothing more to do about a connection
                await engine.dispose()

    async def _ping(self) -> None:
        await self._ready()
        async with self._engines.reading.connect() as connection:
            await connection.execute(FIND, {"wanted": "", "now": 0.0})

    async def _renew(
        self, key: bytes, records: Sequence[Record], ttl_s: float, keep: int, draw: bool
    ) -> Opened:
        await self._ready()
        now = self._clocks().wall
        async with self._transaction() as connection:
            kept = await self._alone(connection, key, now)
            there, before = bool(kept.last), len(kept.records)
            kept.take(records, keep)
            number = kept.draw(at=tenths(now)) if draw else kept.last
            if there and not records and len(kept.records) == before:
                used = {"wanted": key.hex(), "last": kept.last, "expires_at": now + ttl_s}
                await connection.execute(USE, used)
            elif number:
                await self._write(connection, key, kept, now + ttl_s)
        return Opened(number, kept.in_order())

    async def _erase(self, key: bytes, ttl_s: float) -> None:
        await self._ready()
        now = self._clocks().wall
        async with self._transaction() as connection:
            kept = await self._alone(connection, key, now)
            kept.erase(tenths(now))
            await self._write(connection, key, kept, now + ttl_s)

    async def _alone(self, connection: AsyncConnection, key: bytes, now: float) -> Kept:
        """Return the session, which nobody else changes until the transaction ends."""
        if not self._is_sqlite:
            await connection.execute(ALONE, {"lock": lock_of(key)})
        found = (await connection.execute(FIND, {"wanted": key.hex(), "now": now})).first()
        return (
            Kept() if found is None else Kept(found.last, dict(unpacked(bytes(found.records))), found.floor)
        )

    async def _write(self, connection: AsyncConnection, key: bytes, kept: Kept, expires_at: float) -> None:
        row = {"key": key.hex(), "last": kept.last, "floor": kept.floor, "records": packed(kept.in_order())}
        await connection.execute(self._upsert, [{**row, "expires_at": expires_at}])

    async def _sweep(self) -> int:
        await self._ready()
        async with self._transaction() as connection:
            return (await connection.execute(remove_expired(self._clocks().wall))).rowcount

    async def _sweep_on(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            with contextlib.suppress(Away):
                await self.sweep()

    @contextlib.asynccontextmanager
    async def _transaction(self) -> AsyncIterator[AsyncConnection]:
        async with self._engines.writing.connect() as connection:
            try:
                await connection.begin()
                yield connection
                await connection.commit()
            except TimeoutError:
                await connection.invalidate()  # rolling back would take as long
                raise
            except Exception:
                self._made = None  # somebody may have removed the table
                raise

    async def _ready(self) -> None:
        if self._made is None or (self._made.done() and _failed(self._made)):
            self._made = asyncio.get_running_loop().create_task(self._make(), name="session table")
        await asyncio.shield(self._made)

    async def _make(self) -> None:
        await asyncio.to_thread(self._engines.prepare)
        async with self._engines.reading.connect() as connection:
            # A user who may not make tables can use one that is there.
            if await connection.run_sync(lambda made: inspect(made).has_table(SESSIONS.name)):
                return
        async with self._engines.writing.begin() as connection:
            if not self._is_sqlite:
                await connection.execute(ALONE, {"lock": _MAKING})
            await connection.execute(CreateTable(SESSIONS, if_not_exists=True))
            await connection.execute(CreateIndex(EXPIRES, if_not_exists=True))


def _failed(task: asyncio.Task[None]) -> bool:
    return task.cancelled() or task.exception() is not None
