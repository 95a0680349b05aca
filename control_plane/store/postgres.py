"""PostgreSQL: any number of replicas. One writer at a time by an advisory lock; changes told by NOTIFY."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import asyncpg  # type: ignore[import-untyped]  # has no type information
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from control_plane.registry.errors import StorageFullError, StoreUnavailableError
from control_plane.store.failures import translated

CONNECT_S: Final = 2.0
LOCK_WAIT_MS: Final = 8_000
"""How long a writer waits for another replica's."""

STATEMENT_S: Final = 15.0
PING_S: Final = 15.0
RETRY_S: Final = 1.0
CLOSE_S: Final = 0.5
CHANNEL: Final = "outrigger_changes"
# Any constant that no other application on this database uses: "outrigge" as bytes.
LOCK_ID: Final = int.from_bytes(b"outrigge", "big")


class _Connection(asyncpg.Connection):  # type: ignore[misc]  # untyped
    """A connection that says goodbye to a server that answers, and does not wait for one that is frozen."""

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109  # asyncpg's signature
        """Close, within `CLOSE_S` even if more is allowed."""
        await super().close(timeout=CLOSE_S if timeout is None else min(timeout, CLOSE_S))


class Postgres:
    """How SQLAlchemy and the listener reach a PostgreSQL database. `dsn` is libpq's URL; asyncpg reads it."""

    name: Final = "postgresql"

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def engine(self) -> AsyncEngine:
        """Return an engine; it connects when it is used, and again when a connection was lost."""
        return create_async_engine(
            "postgresql+asyncpg://",
            async_creator=self._connect,
            hide_parameters=True,
            pool_pre_ping=True,
            pool_size=4,
            max_overflow=4,
            pool_timeout=CONNECT_S,
        )

    async def lock(self, connection: AsyncConnection) -> None:
        """Wait to be the one writer, until the transaction ends."""
        await connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_WAIT_MS}"))
        await connection.execute(text("SELECT pg_advisory_xact_lock(:id)"), {"id": LOCK_ID})

    async def announce(self, connection: AsyncConnection) -> None:
        """Tell the listeners of other replicas at the commit."""
        await connection.execute(text(f"SELECT pg_notify('{CHANNEL}', '')"))

    async def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake` at each NOTIFY, and after each new connection, since some may have been missed."""
        while True:
            # The poll tells of it.
            with contextlib.suppress(StoreUnavailableError, StorageFullError), translated():
                await self._listen(wake)
            await asyncio.sleep(RETRY_S)

    async def _listen(self, wake: Callable[[], None]) -> None:
        connection = await self._connect()
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        try:
            await connection.add_listener(CHANNEL, lambda *_: wake())
            wake()
            while not lost.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PING_S):
                        await lost.wait()
                        return
                # A connection that a network forgot tells nobody.
                await connection.execute("SELECT 1", timeout=CONNECT_S)
        finally:
            connection.terminate()

    async def _connect(self) -> Any:
        connecting = asyncio.ensure_future(self._connected())
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            # Cut in the middle, asyncpg leaves a future behind that asyncio complains of in the log.
            await asyncio.wait([connecting], timeout=CONNECT_S)
            if connecting.done() and not connecting.cancelled() and not connecting.exception():
                connecting.result().terminate()
            raise

    async def _connected(self) -> Any:
        with _understood():
            return await asyncpg.connect(
                self._dsn,
                timeout=CONNECT_S,
                command_timeout=STATEMENT_S,
                connection_class=_Connection,
                server_settings={"application_name": "outrigger"},
            )


@contextlib.contextmanager
def _understood() -> Iterator[None]:
    """Keep asyncpg's words about a wrong URL, which quote it, to ourselves."""
    try:
        yield
    except (ValueError, asyncpg.ClientConfigurationError):
        raise StoreUnavailableError("its URL is not understood") from None
