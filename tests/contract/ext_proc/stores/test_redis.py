"""Answers in a real Redis, well, dead and frozen."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from ext_proc.answers import Clocks, StoredAnswer
from ext_proc.stores.entries import encode_entry
from ext_proc.stores.redis import PREFIX, READ_WITHIN_S, RedisStore, connect
from tests.harness.redis import RedisMissingError, RedisServer, redis_server

KEY = bytes(range(32))
OTHER = bytes(32)


def clocks() -> Clocks:
    """Return both clocks, now."""
    return Clocks(time.time(), time.monotonic())


def answer(body: bytes = b'{"a": 1}', ttl_s: float = 60.0) -> StoredAnswer:
    """Return an answer that was given now."""
    now = time.monotonic()
    return StoredAnswer(body, "application/json", "m", "v1", now, now + ttl_s)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis."""
    try:
        with redis_server(Path(tmp_path_factory.mktemp("redis"))) as started:
            yield started
    except RedisMissingError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


@pytest.fixture
async def store(server: RedisServer) -> AsyncIterator[RedisStore]:
    """A store on an empty Redis."""
    server.command("FLUSHALL")
    made = await opened(server)
    yield made
    await made.close()


async def opened(server: RedisServer) -> RedisStore:
    """Return a store that has connected."""
    made = RedisStore(connect(server.url), clocks, structlog.get_logger())
    made.start()
    await made.get(OTHER)
    return made


async def written(store: RedisStore, count: int = 1) -> None:
    """Wait until `count` answers have been written."""
    async with asyncio.timeout(5):
        while store.stats.written < count:  # noqa: ASYNC110 - the store has no event for tests
            await asyncio.sleep(0.002)


async def test_an_answer_is_found_by_another_store(server: RedisServer, store: RedisStore) -> None:
    """Exactly, with a time to live."""
    given = answer(b"x" * 100_000)
    store.put(KEY, given)
    await written(store)
    other = await opened(server)
    found = await other.get(KEY)
    await other.close()
    assert found is not None
    assert found.body == given.body
    assert found.expires_at == pytest.approx(given.expires_at, abs=0.1)
    left = int(server.command("PTTL", f"{PREFIX}{KEY.hex()}")[1:])
    assert 50_000 < left <= 60_000
    assert await store.get(OTHER) is None


@pytest.mark.parametrize("given", [answer(ttl_s=-1), answer(b"x" * (8 * 1024 * 1024 + 1))])
async def test_what_is_too_old_or_too_large_is_not_kept(store: RedisStore, given: StoredAnswer) -> None:
    """It is counted."""
    store.put(KEY, replace(given))
    assert store.stats.refused == 1


async def test_entries_of_another_kind_are_no_answers(server: RedisServer, store: RedisStore) -> None:
    """A list, a text, an answer to another question under our key: a miss, and the store goes on."""
    name = f"{PREFIX}{KEY.hex()}"
    server.command("RPUSH", name, "x")
    assert await store.get(KEY) is None
    server.command("DEL", name)
    server.command("SET", name, "hello")
    await asyncio.sleep(1.1)  # a command of the wrong type counts as a failure
    assert await store.get(KEY) is None
    foreign = encode_entry(OTHER, answer(), clocks()).decode()
    server.command("SET", name, foreign)
    assert await store.get(KEY) is None
    store.put(KEY, answer())
    await written(store)
    assert await store.get(KEY) is not None


async def test_cancelled_reads_mix_nothing_up(store: RedisStore) -> None:
    """A thousand readers that leave in the middle: whoever stays gets its own answer or none."""
    keys = [number.to_bytes(32, "big") for number in range(100)]
    for key in keys:
        store.put(key, answer(key.hex().encode()))
    await written(store, 100)

    async def read(number: int) -> None:
        key = keys[number % 100]
        found = await store.get(key)
        assert found is None or found.body == key.hex().encode()

    for _ in range(10):
        readers = [asyncio.create_task(read(number)) for number in range(100)]
        await asyncio.sleep(0.001)
        for reader in readers[::2]:
            reader.cancel()
        results = await asyncio.gather(*readers, return_exceptions=True)
        assert not [found for found in results if isinstance(found, AssertionError)]
    # Reads that were late may have opened the breaker.
    async with asyncio.timeout(15):
        while (found := await store.get(keys[7])) is None:  # noqa: ASYNC110 - it is asked, not told
            await asyncio.sleep(0.05)
    assert found.body == keys[7].hex().encode()


async def test_a_frozen_redis_costs_a_few_milliseconds_and_then_nothing(
    server: RedisServer, store: RedisStore
) -> None:
    """Three late reads at most, then none until it is back; two lines in the log."""
    with capture_logs() as logged:
        server.freeze()
        try:
            began = time.monotonic()
            for _ in range(500):
                assert await store.get(KEY) is None
                store.put(KEY, answer())
            assert time.monotonic() - began < 3 * READ_WITHIN_S + 0.5
        finally:
            server.thaw()
        async with asyncio.timeout(15):
            while store.stats.misses < 3:
                await store.get(OTHER)
                await asyncio.sleep(0.02)
    assert [line["event"] for line in logged] == [
        "Redis does not answer; the cache goes on without it",
        "Redis is back",
    ]


async def test_a_dead_redis_is_missed_by_nobody(server: RedisServer, store: RedisStore) -> None:
    """Reads fail at once; when it is back, empty, it is used again."""
    server.kill()
    try:
        began = time.monotonic()
        for _ in range(500):
            assert await store.get(KEY) is None
            store.put(KEY, answer())
        assert time.monotonic() - began < 1
    finally:
        server.start()
    async with asyncio.timeout(15):
        while await store.get(KEY) is None:
            store.put(KEY, answer())
            await asyncio.sleep(0.05)


def test_a_wrong_address_is_refused_at_once() -> None:
    """Before anything is served."""
    with pytest.raises(ValueError, match="scheme"):
        connect("http://127.0.0.1")
