"""The registry's Store over SQLAlchemy; what differs between databases is passed in as an engine's maker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final, Protocol

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from control_plane.registry.errors import StoreUnavailableError
from control_plane.store.failures import fatal_at_open, translated
from control_plane.store.migrating import migrate
from control_plane.store.reading import SqlReading
from control_plane.store.shared import SqlShared
from control_plane.store.writing import SqlWriting

FIRST_ANSWER_S: Final = 2.0
"""How long a database may take for its first word; a frozen one is told from a slow one by it."""

OPEN_S: Final = 60.0
CLOSE_S: Final = 2.0
TRANSACTION_S: Final = 20.0


class Database(Protocol):
    """What one kind of database does in its own way."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    def engine(self) -> AsyncEngine:
        """Return an engine for it."""
        ...

    async def lock(self, connection: AsyncConnection) -> None:
        """Make `connection` the one writer until its transaction ends."""
        ...

    async def announce(self, connection: AsyncConnection) -> None:
        """Tell other replicas of this transaction when it is committed."""
        ...

    async def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake` when another replica announced something, until cancelled."""
        ...


class SqlStore:
    """See `control_plane.registry.ports.Store`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._engine = database.engine()

    @property
    def name(self) -> str:
        """`sqlite` or `postgresql`."""
        return self._database.name

    async def open(self) -> None:
        """Migrate, one replica after the other.

        Raises:
            StoreOpenError, StoreUnavailableError, StorageFullError: see the Protocol.
        """
        with fatal_at_open():
            async with self._transaction(writes=True, seconds=OPEN_S) as connection:
                await connection.run_sync(migrate)

    async def close(self) -> None:
        """Let every connection go."""
        with contextlib.suppress(StoreUnavailableError), translated():
            async with asyncio.timeout(CLOSE_S):
                await self._engine.dispose()

    @contextlib.asynccontextmanager
    async def read(self) -> AsyncIterator[SqlReading]:
        """Look at the database."""
        async with self._transaction(writes=False) as connection:
            yield SqlReading(connection)

    @contextlib.asynccontextmanager
    async def write(self) -> AsyncIterator[SqlWriting]:
        """Change the database as its one writer; committed when the block ends well."""
        async with self._transaction(writes=True) as connection:
            yield SqlWriting(connection, lambda: self._database.announce(connection))

    @contextlib.asynccontextmanager
    async def append(self) -> AsyncIterator[SqlWriting]:
        """Add rows that nobody has in memory; no lock over replicas."""
        async with self._transaction(writes=False) as connection:
            yield SqlWriting(connection, lambda: self._database.announce(connection))

    @contextlib.asynccontextmanager
    async def shared(self) -> AsyncIterator[SqlShared]:
        """Look at what replicas share, or change it; no lock over replicas."""
        async with self._transaction(writes=False) as connection:
            yield SqlShared(connection)

    async def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake` when another replica announced something, until cancelled."""
        await self._database.watch(wake)

    @contextlib.asynccontextmanager
    async def _transaction(
        self, *, writes: bool, seconds: float = TRANSACTION_S
    ) -> AsyncIterator[AsyncConnection]:
        with translated():
            async with asyncio.timeout(seconds), contextlib.AsyncExitStack() as stack:
                async with asyncio.timeout(FIRST_ANSWER_S):
                    connection = await stack.enter_async_context(self._engine.connect())
                if writes:
                    await self._database.lock(connection)
                yield connection
                await connection.commit()
