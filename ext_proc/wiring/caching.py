"""What the cache of one processor consists of. What is seldom used is loaded when it is used first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from structlog.typing import FilteringBoundLogger

from ext_proc.answers import Clocks, StoredAnswer
from ext_proc.contract.snapshot import Purge, Snapshot
from ext_proc.settings import ProcessorSettings
from ext_proc.stores.memory import MemoryStore
from ext_proc.tally import CacheTally
from ext_proc.tiers import DATABASE, MEMORY, REDIS, SharedStore, Tiers

if TYPE_CHECKING:
    from ext_proc.stores.database import DatabaseStore
    from ext_proc.stores.shared_flights import SharedFlights

OPEN_WITHIN_S: Final = 1.0
DATABASE_FILE: Final = "answers.db"
"""Where answers are kept below the data folder when a Policy asks for a database and none is named."""


@dataclass(frozen=True, slots=True)
class Caching:
    """The cache of one processor: where answers are kept, what is void of them, and what it did."""

    tiers: Tiers
    tally: CacheTally
    purges: Callable[[], Sequence[Purge]]


def clocks() -> Clocks:
    """Return the time of day and this process's own."""
    return Clocks(time.time(), time.monotonic())


class DatabaseOnDemand:
    """A `SharedStore` that opens its database when it is used first: that takes half a second and 20 MB."""

    def __init__(self, url: str, log: FilteringBoundLogger) -> None:
        self._url = url
        self._log = log
        self._store: DatabaseStore | None = None
        self._opening: asyncio.Task[None] | None = None
        self._tidying: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to open it, on the running loop, if that has not begun."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open(), name="cache database")

    async def get(self, key: bytes) -> StoredAnswer | None:
        """Return the answer under `key`; the first time may wait for the database to be opened."""
        self.open()
        if self._store is None and self._opening is not None:
            await asyncio.wait((self._opening,), timeout=OPEN_WITHIN_S)
        return await self._store.get(key) if self._store is not None else None

    def put(self, key: bytes, answer: StoredAnswer) -> None:
        """Keep `answer`, soon; not while the database is being opened."""
        self.open()
        if self._store is not None:
            self._store.put(key, answer)

    def purge(self, purges: Sequence[Purge]) -> None:
        """Remove what `purges` have voided, soon, if the database is in use."""
        if self._store is not None:
            self._tidying = asyncio.get_running_loop().create_task(self._purge(self._store, purges))

    async def close(self) -> None:
        """Let it go."""
        tasks = [task for task in (self._opening, self._tidying) if task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._store is not None:
            await self._store.close()

    async def _open(self) -> None:
        try:
            store = await asyncio.to_thread(_database, self._url, self._log)
        except Exception as error:
            # Without it the cache goes on with its other tiers.
            self._log.error("the cache's database cannot be used", error=type(error).__name__)
        else:
            store.start()
            await store.open()
            self._store = store

    async def _purge(self, store: DatabaseStore, purges: Sequence[Purge]) -> None:
        await store.purge(purges)


@dataclass(frozen=True, slots=True)
class Stores:
    """The tiers of one processor, and who knows of other processors' flights."""

    memory: MemoryStore
    tiers: Tiers
    database: DatabaseOnDemand
    elsewhere: SharedFlights | None

    def held(self) -> Mapping[str, tuple[int, int]]:
        """Return the entries and bytes of each tier whose size this process knows."""
        stats = self.memory.stats()
        return {MEMORY: (stats.entries, stats.bytes)}

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Open what a Policy asks for; free the room of voided answers, which are served no more anyway."""
        named = (layer.settings.get("cache.tiers") for layer in snapshot.policies)
        if any(isinstance(tiers, tuple) and DATABASE in tiers for tiers in named):
            self.database.open()
        if snapshot.purges:
            self.tiers.sweep_memory(snapshot.purges)
            self.database.purge(snapshot.purges)


async def open_stores(
    settings: ProcessorSettings, log: FilteringBoundLogger, owned: AsyncExitStack
) -> Stores:
    """Open the tiers that the settings name; `owned` closes them.

    A database that no setting names is used only where a Policy asks for one: answers are not written to this
    machine's disk by themselves.
    """
    memory = MemoryStore(1, 1, time.monotonic)  # the stage sizes it by the policy
    shared: dict[str, SharedStore] = {}
    elsewhere = None
    if settings.redis is not None:
        # A megabyte of modules.
        from ext_proc.stores.leases import RedisLeases  # noqa: PLC0415
        from ext_proc.stores.redis import RedisStore, connect  # noqa: PLC0415
        from ext_proc.stores.shared_flights import SharedFlights  # noqa: PLC0415

        client = connect(settings.redis)
        redis = RedisStore(client, clocks, log)
        redis.start()
        owned.push_async_callback(redis.close)
        shared[REDIS] = redis
        elsewhere = SharedFlights(RedisLeases(client, clocks, log), clocks)
        owned.push_async_callback(elsewhere.close)
        # The first request need not wait for a connection.
        warming = asyncio.ensure_future(client.ping())
        owned.callback(warming.cancel)
        warming.add_done_callback(_looked_at)
    database = DatabaseOnDemand(settings.database or f"sqlite:///{settings.data_dir / DATABASE_FILE}", log)
    owned.push_async_callback(database.close)
    shared[DATABASE] = database
    if settings.database is not None:
        database.open()
    default = [MEMORY, *(name for name in shared if name != DATABASE or settings.database is not None)]
    return Stores(memory, Tiers(memory, shared, clocks, default), database, elsewhere)


def _database(url: str, log: FilteringBoundLogger) -> DatabaseStore:
    from ext_proc.stores.database import DatabaseStore  # noqa: PLC0415
    from ext_proc.stores.engines import engines_for  # noqa: PLC0415

    return DatabaseStore(engines_for(url), clocks, log)


def _looked_at(ping: asyncio.Future[bool]) -> None:
    # What ails Redis the first call that needs it will tell.
    if not ping.cancelled():
        ping.exception()
