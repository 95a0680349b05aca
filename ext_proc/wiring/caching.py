"""What the cache of one processor consists of. What is seldom used is loaded when it is used first."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from structlog.typing import FilteringBoundLogger

from ext_proc.answers import StoredAnswer
from ext_proc.cache_view import Held
from ext_proc.contract.policies import CachePolicy, all_settings
from ext_proc.contract.snapshot import Purge, Setting, Snapshot
from ext_proc.limits.book import MemoryBook
from ext_proc.settings import ProcessorSettings, SettingsError
from ext_proc.stages.session import Sessions
from ext_proc.stores.memory import MemoryStore
from ext_proc.tally import CacheTally, LeaseTally
from ext_proc.tiers import DATABASE, MEMORY, REDIS, SharedStore, Tiers
from ext_proc.warmup import OwnTurns, Turns
from ext_proc.wiring.sessions import clocks, open_sessions

if TYPE_CHECKING:
    from ext_proc.stores.database import DatabaseStore
    from ext_proc.stores.entry_store import StoreStats
    from ext_proc.stores.redis import RedisStore
    from ext_proc.stores.shared_flights import SharedFlights
    from ext_proc.stores.shared_limits import RedisBook

DATABASE_FILE: Final = "answers.db"
"""Where answers are kept below the data folder when a Policy asks for a database and none is named."""


@dataclass(frozen=True, slots=True)
class Caching:
    """The cache of one processor: where answers are kept, what is void of them, and what it did."""

    tiers: Tiers
    tally: CacheTally
    purges: Callable[[], Sequence[Purge]]


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

    @property
    def stats(self) -> StoreStats | None:
        """What it has done; None while it is not in use."""
        return self._store.stats if self._store is not None else None

    async def get(self, key: bytes) -> StoredAnswer | None:
        """Return the answer under `key`; None while the database is being opened."""
        self.open()
        return await self._store.get(key) if self._store is not None else None

    async def ready(self, within_s: float) -> None:
        """Wait until it is open, if that has begun, and no longer than that."""
        if self._opening is not None:
            await asyncio.wait((self._opening,), timeout=within_s)

    def put(self, key: bytes, answer: StoredAnswer) -> None:
        """Keep `answer`, soon; not while the database is being opened."""
        self.open()
        if self._store is not None:
            self._store.put(key, answer)

    def purge(self, purges: Sequence[Purge]) -> None:
        """Remove what `purges` have voided, soon, if the database is in use; one after the other."""
        if self._opening is not None:
            before = self._tidying
            self._tidying = asyncio.get_running_loop().create_task(self._purge(purges, before))

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
            self._store = store
            await store.open()

    async def _purge(self, purges: Sequence[Purge], before: asyncio.Task[None] | None) -> None:
        await asyncio.gather(*(task for task in (before, self._opening) if task), return_exceptions=True)
        if self._store is not None:
            await self._store.purge(purges)


@dataclass(slots=True)
class Stores:
    """The tiers of one processor, who knows of others' flights, and where sessions and limits are."""

    memory: MemoryStore
    tiers: Tiers
    database: DatabaseOnDemand
    elsewhere: SharedFlights | None
    leases: LeaseTally
    sessions: Sessions
    turns: Turns
    book: RedisBook | MemoryBook
    redis: RedisStore | None = None
    purged_until_s: float = 0.0

    def held(self) -> Mapping[str, Held]:
        """Return what this process knows of each tier that is in use."""
        memory = self.memory.stats()
        held = {MEMORY: Held(memory.entries, memory.bytes, memory.misses)}
        for name, stats in (
            (REDIS, self.redis.stats if self.redis else None),
            (DATABASE, self.database.stats),
        ):
            if stats is not None:
                held[name] = Held(misses=stats.misses, failures=stats.failures, dropped=stats.dropped)
        return held

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Follow the policy: memory is as large as any Policy says, a database is there if one names it.

        What newer purges have voided makes room. It is served no more in any case.
        """
        policies, default = list(all_settings(snapshot)), CachePolicy()
        self.memory.resize(
            _largest(policies, "cache.memory_entries", default.memory_entries),
            _largest(policies, "cache.memory_bytes", default.memory_bytes),
        )
        named = (settings.get("cache.tiers") for settings in policies)
        if any(isinstance(tiers, tuple) and DATABASE in tiers for tiers in named):
            self.database.open()
        newer = [purge for purge in snapshot.purges if purge.at_s > self.purged_until_s]
        if newer:
            self.purged_until_s = max(purge.at_s for purge in newer)
            self.tiers.sweep_memory(newer)
            self.database.purge(newer)


async def open_stores(
    settings: ProcessorSettings, log: FilteringBoundLogger, owned: AsyncExitStack
) -> Stores:
    """Open the tiers that the settings name; `owned` closes them.

    A database that no setting names is used only where a Policy asks for one: answers are not written to this
    machine's disk by themselves.
    """
    memory = MemoryStore(0, 0, time.monotonic)  # the first snapshot says how large it is
    shared: dict[str, SharedStore] = {}
    elsewhere = redis = client = None
    leases = LeaseTally()
    book: RedisBook | MemoryBook = MemoryBook(lambda: time.monotonic_ns() // 1000)
    turns: Turns = OwnTurns()
    if settings.redis is not None:
        # A megabyte of modules.
        from ext_proc.stores.leases import RedisLeases  # noqa: PLC0415
        from ext_proc.stores.redis import RedisStore, connect  # noqa: PLC0415
        from ext_proc.stores.shared_flights import SharedFlights  # noqa: PLC0415
        from ext_proc.stores.shared_limits import RedisBook  # noqa: PLC0415
        from ext_proc.stores.warm_turns import RedisTurns  # noqa: PLC0415

        try:
            client = connect(settings.redis)
        except ValueError as error:
            raise SettingsError(str(error)) from None
        redis = RedisStore(client, clocks, log)
        redis.start()
        owned.push_async_callback(redis.close)
        shared[REDIS] = redis
        elsewhere = SharedFlights(RedisLeases(client, clocks, log, tally=leases))
        owned.push_async_callback(elsewhere.close)
        turns = RedisTurns(client, clocks, log)
        owned.push_async_callback(turns.close)
        book = shared_book = RedisBook(client, clocks, log, secrets.token_hex(8))
        owned.push_async_callback(shared_book.close)
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
    sessions = open_sessions(client, settings.database, log, owned)
    tiers = Tiers(memory, shared, clocks, default)
    return Stores(memory, tiers, database, elsewhere, leases, sessions, turns, book, redis)


def _largest(policies: Sequence[Mapping[str, Setting]], setting: str, default: int) -> int:
    values = [value for settings in policies if isinstance(value := settings.get(setting), int)]
    return max(values, default=default)


def _database(url: str, log: FilteringBoundLogger) -> DatabaseStore:
    from ext_proc.stores.database import DatabaseStore  # noqa: PLC0415
    from ext_proc.stores.engines import engines_for  # noqa: PLC0415

    return DatabaseStore(engines_for(url), clocks, log)


def _looked_at(ping: asyncio.Future[bool]) -> None:
    # What ails Redis the first call that needs it will tell.
    if not ping.cancelled():
        ping.exception()
