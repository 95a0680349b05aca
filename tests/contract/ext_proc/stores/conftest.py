"""Where shared answers are kept for tests: a real Redis, a SQLite file, a schema of a real PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import structlog
from sqlalchemy import insert

from ext_proc.answers import Clocks, StoredAnswer
from ext_proc.stores.database import DatabaseStore
from ext_proc.stores.engines import engines_for
from ext_proc.stores.entry_store import EntryStore
from ext_proc.stores.redis import PREFIX, RedisStore, connect
from ext_proc.stores.table import ANSWERS
from tests.harness.postgres import PostgresMissingError, PostgresServer, postgres_server
from tests.harness.processes import free_ports, until
from tests.harness.redis import RedisMissingError, RedisServer, find_server, redis_server

KEY = bytes(range(32))
OTHER = b"\xff" * 32


def clocks() -> Clocks:
    """Return both clocks, now."""
    return Clocks(time.time(), time.monotonic())


def answer(
    body: bytes = b'{"a": 1}',
    ttl_s: float = 60.0,
    *,
    partition: str = "",
    model: str = "m",
    version: str = "v1",
) -> StoredAnswer:
    """Return an answer that was given now."""
    now = time.monotonic()
    return StoredAnswer(
        body, "application/json", model, version, now, now + ttl_s, 3, 4, 0.5, now + ttl_s / 2, partition
    )


def numbered(number: int) -> bytes:
    """Return a key as long as the real ones."""
    return number.to_bytes(32, "big")


async def written(store: EntryStore, count: int = 1) -> None:
    """Wait until `count` answers have been written."""
    async with asyncio.timeout(5):
        while store.stats.written < count:  # noqa: ASYNC110 - the store has no event for tests
            await asyncio.sleep(0.002)


@dataclass
class Place:
    """Somewhere to keep answers: how a processor opens a store there, how anybody writes what he likes."""

    make: Callable[[], EntryStore]
    poison: Callable[[bytes, bytes], Awaitable[None]]
    opened: list[EntryStore] = field(default_factory=list)

    async def open(self) -> EntryStore:
        """Return the store of one more processor; it has connected."""
        store = self.make()
        self.opened.append(store)
        store.start()
        async with asyncio.timeout(5):
            while not store.stats.misses:
                await store.get(OTHER)
                await asyncio.sleep(0.01)
        return store


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis. Not installed, it is a skip here and a failure in CI."""
    try:
        with redis_server(Path(tmp_path_factory.mktemp("redis"))) as started:
            yield started
    except RedisMissingError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def redis_cluster(redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis Cluster of one node, which refuses what names keys of several slots."""
    folder = tmp_path_factory.mktemp("cluster")
    start = folder / "start"
    start.write_text(f'#!/bin/sh\nexec {find_server()} "$@" --cluster-enabled yes\n')
    start.chmod(0o700)
    server = RedisServer(str(start), folder)
    while server.port > 22_000:  # its other port is 10,000 above, where the system's own begin soon
        server.port = free_ports(1)[0]
    try:
        server.start()
        server.command("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        until(lambda: b"cluster_state:ok" in server.command("CLUSTER", "INFO"), 10, "the cluster is made")
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One PostgreSQL server. Not installed, it is a skip here and a failure in CI."""
    try:
        with postgres_server(install=bool(os.environ.get("CI"))) as started:
            yield started
    except PostgresMissingError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'cache' / 'answers.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture(params=["redis", "sqlite", "postgresql"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """An empty place of each kind in turn."""
    if request.param == "redis":
        made = _in_redis(request.getfixturevalue("redis"))
    elif request.param == "sqlite":
        made = in_database(f"sqlite:///{tmp_path / 'answers.db'}")
    else:
        made = in_database(request.getfixturevalue("postgres").new_database())
    yield made
    await asyncio.gather(*(store.close() for store in made.opened))


def _in_redis(server: RedisServer) -> Place:
    server.command("FLUSHALL")
    return Place(
        lambda: RedisStore(connect(server.url), clocks, structlog.get_logger()),
        lambda key, data: _redis_set(server, key, data),
    )


async def _redis_set(server: RedisServer, key: bytes, data: bytes) -> None:
    client = connect(server.url)
    await client.set(f"{PREFIX}{key.hex()}", data, px=60_000)
    await client.aclose()


def in_database(url: str) -> Place:
    """Return the place at `url`."""
    return Place(
        lambda: DatabaseStore(engines_for(url), clocks, structlog.get_logger()),
        lambda key, data: _database_set(url, key, data),
    )


async def _database_set(url: str, key: bytes, data: bytes) -> None:
    engines = engines_for(url)
    now = time.time()
    row = {"key": key.hex(), "entry": data, "bytes": len(data), "written_at": now, "expires_at": now + 60}
    async with engines.writing.begin() as connection:
        await connection.execute(ANSWERS.delete().where(ANSWERS.c.key == key.hex()))
        await connection.execute(
            insert(ANSWERS), {**row, "asked_at": now, "partition": "", "model": "m", "version": "v1"}
        )
    await engines.reading.dispose()
    await engines.writing.dispose()
