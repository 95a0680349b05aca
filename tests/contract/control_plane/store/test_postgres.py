"""PostgreSQL: gone and back, frozen, refused, and telling of changes."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from control_plane.registry.errors import StoreOpenError, StoreUnavailableError
from control_plane.store.opening import store_for
from control_plane.store.sql_store import SqlStore
from tests.harness.postgres import PostgresServer

# What a caller waits at most to be told that the database is gone.
QUICKLY_S = 3.5


@pytest.fixture
async def store(postgres: PostgresServer, tmp_path: Path) -> AsyncIterator[SqlStore]:
    """An open store over a database of its own."""
    store = store_for(postgres.new_database(), tmp_path)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def frozen(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """A server that is thawed at the end, whatever happens."""
    yield postgres
    postgres.thaw()


async def put(store: SqlStore) -> None:
    """Change something."""
    async with store.write() as tx:
        await tx.set_setting("a", b"1")


async def test_a_server_that_stops_is_told_at_once_and_used_again_when_it_is_back(
    store: SqlStore, postgres: PostgresServer
) -> None:
    """Connections of before are replaced without anybody doing anything."""
    await put(store)
    postgres.stop()
    began = time.monotonic()
    try:
        with pytest.raises(StoreUnavailableError):
            await put(store)
        with pytest.raises(StoreUnavailableError):
            async with store.read():
                pass
    finally:
        postgres.start()
    assert time.monotonic() - began < QUICKLY_S + 5  # the start is in it
    await put(store)


async def test_a_frozen_server_is_given_up_quickly(store: SqlStore, frozen: PostgresServer) -> None:
    """A database that takes connections and answers none is as good as gone."""
    await put(store)
    frozen.freeze()
    began = time.monotonic()
    with pytest.raises(StoreUnavailableError, match="no answer in time"):
        await put(store)
    assert time.monotonic() - began < QUICKLY_S
    frozen.thaw()
    await put(store)


async def test_no_reason_quotes_the_password_or_the_address(postgres: PostgresServer, tmp_path: Path) -> None:
    """Whatever is wrong with the URL."""
    urls = {
        postgres.url().replace("marker@", "wrong@"): "refused",
        postgres.url("nowhere"): "no database of that name",
        postgres.url().replace(f":{postgres.port}/", ":1/"): "connection refused",
        postgres.url().replace("127.0.0.1", "no.such.host.invalid"): "host name",
        postgres.url() + "?sslmode=nonsense": "URL",
        postgres.url() + "?sslmode=require": "connection is lost",
        postgres.url().replace(str(postgres.port), "port"): "URL",
    }
    for url, reason in urls.items():
        store = store_for(url, tmp_path)
        with pytest.raises(StoreUnavailableError, match=reason) as error:
            await store.open()
        for secret in ("pg-password", str(postgres.port), "127.0.0.1", "no.such"):
            assert secret not in str(error.value)
        assert "password-marker" not in repr(store._engine)
        await store.close()


async def test_a_user_without_the_right_to_make_tables_is_told_so(
    store: SqlStore, postgres: PostgresServer, tmp_path: Path
) -> None:
    """Since PostgreSQL 15 only its owner may make tables in a database's public schema."""
    async with store._engine.begin() as connection:
        await connection.exec_driver_sql("CREATE ROLE guest LOGIN PASSWORD 'guest'")
    guest = store_for(postgres.url().replace(f"outrigger:{postgres.password}", "guest:guest"), tmp_path)
    with pytest.raises(StoreOpenError, match="grant it CREATE"):
        await guest.open()
    await guest.close()


@contextlib.asynccontextmanager
async def watching(store: SqlStore) -> AsyncIterator[asyncio.Event]:
    """Watch with an event, until the block ends."""
    woken = asyncio.Event()
    task = asyncio.create_task(store.watch(woken.set))
    try:
        async with asyncio.timeout(10):
            yield woken
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_commit_of_one_replica_wakes_the_others(store: SqlStore) -> None:
    """Once when the watch begins, since something may have been missed, and then at each commit."""
    async with watching(store) as woken:
        await woken.wait()
        woken.clear()
        async with store.write() as tx:
            await tx.bump(["keys"])
            await asyncio.sleep(0.05)
            assert not woken.is_set()
        await woken.wait()


async def test_a_watch_goes_on_after_the_server_was_gone(store: SqlStore, postgres: PostgresServer) -> None:
    """It connects again by itself."""
    async with watching(store) as woken:
        await woken.wait()
        await asyncio.to_thread(postgres.stop)
        woken.clear()
        await asyncio.to_thread(postgres.start)
        await woken.wait()
        woken.clear()
        async with store.write() as tx:
            await tx.bump(["keys"])
        await woken.wait()
