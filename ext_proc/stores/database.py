"""Answers in a database, SQLite or PostgreSQL: many of them, kept over restarts of everything.

One table (`table`), made at first use. What is read stays within a deadline, what is written is written
behind the answer, and what is too old or too much is swept in the background.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final

from sqlalchemy import ColumnElement, delete, func, inspect, select, text
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.schema import CreateIndex, CreateTable
from structlog.typing import FilteringBoundLogger

from ext_proc.answers import Clocks, StoredAnswer
from ext_proc.contract.snapshot import Purge
from ext_proc.stores.engines import CLOSE_S, READERS, Engines
from ext_proc.stores.entry_store import WAITING_READS, Entry, EntryStore
from ext_proc.stores.neighbour import Away
from ext_proc.stores.outlasting import Calls
from ext_proc.stores.table import ANSWERS, FIND, INDEXES, SWEEP_ROWS, meant, remove_some, row, upsert

MAX_ENTRIES: Final = 100_000
MAX_BYTES: Final = 1024 * 1024 * 1024
# What a hit may cost at most. A disk is slower than Redis, and a model slower than any disk.
READ_WITHIN_S: Final = 0.05
WRITE_WITHIN_S: Final = 3.0
# Connecting and making the table.
OPEN_WITHIN_S: Final = 3.0
BATCH: Final = 100
# Questions that come together are looked up together.
LOOKED_UP_TOGETHER: Final = 32
SWEEP_EVERY_S: Final = 60.0
# A processor that has written nothing leaves sweeping to the others, for so long.
SWEEP_AT_LEAST_EVERY_S: Final = 3600.0
# So much more than the bounds, in parts, is there before the next sweep at most.
OVERSHOOT_PARTS: Final = 20
# Any constants that no other application on this database uses: "outr_mak" and "outr_swp" as bytes.
_MAKING: Final = int.from_bytes(b"outr_mak", "big")
_SWEEPING: Final = int.from_bytes(b"outr_swp", "big")


class DatabaseStore(EntryStore):
    """Keeps answers in a database. For one event loop.

    Args:
        engines: made by `engines_for`.
        clocks: the time of day and this process's own, now.
        log: where trouble is told, once when it begins and once when it is over.
        max_entries: how many answers are left after a sweep, of all processors together.
        max_bytes: how many bytes of entries are.
    """

    def __init__(
        self,
        engines: Engines,
        clocks: Callable[[], Clocks],
        log: FilteringBoundLogger,
        max_entries: int = MAX_ENTRIES,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        super().__init__(
            "the cache's database",
            clocks,
            log,
            read_within_s=READ_WITHIN_S,
            write_within_s=WRITE_WITHIN_S,
            reads_at_once=WAITING_READS,
            writers=1,
            batch=BATCH,
        )
        self._engines = engines
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._is_sqlite = engines.writing.dialect.name == "sqlite"
        self._upsert = upsert(engines.writing.dialect.name)
        self._made: asyncio.Task[None] | None = None
        self._asked: list[tuple[str, asyncio.Future[bytes | None]]] = []
        self._lookups = 0
        self._calls = Calls()
        self._opening: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._grown_entries = self._grown_bytes = 0
        self._full = asyncio.Event()

    def start(self) -> None:
        """Begin to write and to sweep in the background, on the running loop."""
        super().start()
        self._sweeping = asyncio.get_running_loop().create_task(self._sweep_on(), name="cache sweep")

    async def open(self) -> None:
        """Connect and make the table now, so that the first read finds what there is. Never fails."""
        with contextlib.suppress(Away):
            await self._neighbour.ask(self._ping, OPEN_WITHIN_S)

    async def close(self) -> None:
        """Write what waits, as far as a moment allows, and let the connections go."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        await super().close()

    async def get(self, key: bytes) -> StoredAnswer | None:
        """Return the answer under `key`; None when there is none or the database does not say so in time.

        As long as it has not been opened it is opened in the background, and nobody waits for it.
        """
        if self._is_open():
            return await super().get(key)
        if not self._neighbour.is_away() and (self._opening is None or self._opening.done()):
            self._opening = self._calls.start(self.open())
        return None

    async def purge(self, purges: Sequence[Purge]) -> int:
        """Remove what `purges` have voided; return how many answers. Never fails: reading checks it too."""
        voided = 0
        for purge in purges:
            voided += await self._tidy(partial(self._remove_all, meant(purge)))
        return voided

    async def sweep(self) -> int:
        """Remove what has expired and what is beyond the bounds, the oldest first; return how many answers.

        Never fails. Where another processor is at it, it is left to that one.
        """
        return await self._tidy(self._sweep)

    async def _ping(self) -> None:
        await self._ready()
        try:
            async with self._engines.reading.connect() as connection:
                await connection.execute(select(ANSWERS.c.key).limit(1))
        except Exception:
            self._made = None  # somebody may have removed the table
            raise

    async def _fetch(self, key: bytes) -> object:
        found: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self._asked.append((key.hex(), found))
        if self._lookups < READERS:
            self._lookups += 1
            self._calls.start(self._look_up())
        return await found

    async def _keep(self, entries: Sequence[Entry]) -> None:
        if not self._is_open():
            await self._neighbour.ask(self._ping, OPEN_WITHIN_S)
        await self._calls.outlast(self._kept(entries))

    async def _disconnect(self) -> None:
        await self._calls.close(CLOSE_S)
        for engine in (self._engines.reading, self._engines.writing):
            with contextlib.suppress(Exception):  # there is nothing more to do about a connection
                await engine.dispose()

    async def _look_up(self) -> None:
        try:
            while self._asked:
                asked, self._asked = self._asked[:LOOKED_UP_TOGETHER], self._asked[LOOKED_UP_TOGETHER:]
                waiting = [(key, found) for key, found in asked if not found.done()]
                await self._answer(waiting)
        finally:
            self._lookups -= 1

    async def _answer(self, waiting: Sequence[tuple[str, asyncio.Future[bytes | None]]]) -> None:
        try:
            entries = await self._found([key for key, _ in waiting])
        except Exception as error:
            # Whatever it is: whoever asked makes of it that the database is away.
            for _, found in waiting:
                if not found.done():
                    found.set_exception(error)
            return
        for key, found in waiting:
            if not found.done():
                found.set_result(entries.get(key))

    async def _found(self, keys: Sequence[str]) -> dict[str, bytes]:
        if not keys:
            return {}
        await self._ready()
        async with self._engines.reading.connect() as connection:
            try:
                rows = await connection.execute(FIND, {"wanted": keys})
            except TimeoutError:
                await connection.invalidate()  # its answer may come yet, to another question
                raise
            return {key: bytes(entry) for key, entry in rows}

    async def _kept(self, entries: Sequence[Entry]) -> None:
        await self._ready()
        written_at = self._clocks().wall
        # In the order of their keys, so that two processors never wait for each other.
        rows = {entry.key.hex(): row(entry, written_at) for entry in entries}
        async with self._transaction() as connection:
            await connection.execute(self._upsert, [rows[key] for key in sorted(rows)])
        self._grown_entries += len(rows)
        self._grown_bytes += sum(len(entry.data) for entry in entries)
        if (
            self._grown_entries * OVERSHOOT_PARTS > self._max_entries
            or self._grown_bytes * OVERSHOOT_PARTS > self._max_bytes
        ):
            self._full.set()

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

    def _is_open(self) -> bool:
        made = self._made
        return made is not None and made.done() and not made.cancelled() and made.exception() is None

    async def _ready(self) -> None:
        if self._made is None or (self._made.done() and not self._is_open()):
            self._made = self._calls.start(self._make())
        await asyncio.shield(self._made)

    async def _make(self) -> None:
        await asyncio.to_thread(self._engines.prepare)
        async with self._engines.reading.connect() as connection:
            # A user who may not make tables can use one that is there.
            if await connection.run_sync(lambda made: inspect(made).has_table(ANSWERS.name)):
                return
        async with self._transaction() as connection:
            if not self._is_sqlite:
                await connection.execute(select(func.pg_advisory_xact_lock(_MAKING)))
            await connection.execute(CreateTable(ANSWERS, if_not_exists=True))
            for index in INDEXES:
                await connection.execute(CreateIndex(index, if_not_exists=True))

    async def _sweep_on(self) -> None:
        idle_s = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SWEEP_EVERY_S):
                    await self._full.wait()
            self._full.clear()
            idle_s += SWEEP_EVERY_S
            if self._made is not None and (self._grown_entries or idle_s >= SWEEP_AT_LEAST_EVERY_S):
                idle_s = 0.0
                await self.sweep()

    async def _tidy(self, work: Callable[[], Coroutine[Any, Any, int]]) -> int:
        if self._neighbour.is_away() or not self._writes.allows():
            return 0
        try:
            removed = await self._calls.outlast(work())
        except asyncio.CancelledError:
            self._writes.gave_up()
            raise
        except Exception as error:
            # Locked, full, gone: what is too old is no answer, whether it is there or not.
            self._failed_to_write(error)
            return 0
        self._writes.succeeded()
        return removed

    async def _sweep(self) -> int:
        await self._ready()
        self._grown_entries = self._grown_bytes = 0
        removed = await self._remove_all(ANSWERS.c.expires_at <= self._clocks().wall)
        while True:
            async with self._transaction() as connection:
                oldest = await self._beyond(connection) if await self._is_mine(connection) else []
                if not oldest:
                    return removed
                await connection.execute(delete(ANSWERS).where(ANSWERS.c.key.in_(oldest)))
            removed += len(oldest)

    async def _beyond(self, connection: AsyncConnection) -> Sequence[str]:
        """Return the keys of the oldest answers that are too many, some of them at a time."""
        totals = select(func.count(), func.coalesce(func.sum(ANSWERS.c.bytes), 0)).select_from(ANSWERS)
        entries, size = (await connection.execute(totals)).one()
        if entries <= self._max_entries and size <= self._max_bytes:
            return []
        oldest = select(ANSWERS.c.key, ANSWERS.c.bytes).order_by(ANSWERS.c.written_at).limit(SWEEP_ROWS)
        oldest = oldest.with_for_update(skip_locked=True)
        keys: list[str] = []
        for key, key_bytes in await connection.execute(oldest):
            if entries <= self._max_entries and size <= self._max_bytes:
                break
            keys.append(key)
            entries, size = entries - 1, size - key_bytes
        return keys

    async def _remove_all(self, condition: ColumnElement[bool]) -> int:
        await self._ready()
        removed = 0
        while True:
            async with self._transaction() as connection:
                rows = (await connection.execute(remove_some(condition))).rowcount
            removed += rows
            if rows < SWEEP_ROWS:
                return removed

    async def _is_mine(self, connection: AsyncConnection) -> bool:
        if self._is_sqlite:
            return True
        lock = text("SELECT pg_try_advisory_xact_lock(:id)")
        return bool(await connection.scalar(lock, {"id": _SWEEPING}))
