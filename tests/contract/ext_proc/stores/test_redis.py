"""Answers in a real Redis, well, slow, cut off, dead and frozen."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog
from structlog.testing import capture_logs

from ext_proc.answers import StoredAnswer
from ext_proc.stores.entry_store import EntryStore
from ext_proc.stores.neighbour import LATE_WHEN_BUSY
from ext_proc.stores.redis import PREFIX, READ_WITHIN_S, RedisStore, connect
from tests.contract.ext_proc.stores.conftest import KEY, OTHER, answer, clocks, numbered, written
from tests.harness.redis import RedisServer

LINES = ["Redis does not answer; the cache goes on without it", "Redis is back"]


@pytest.fixture
async def store(redis: RedisServer) -> AsyncIterator[EntryStore]:
    """A store on an empty Redis, connected."""
    redis.command("FLUSHALL")
    async with opened(redis.url) as made:
        yield made


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[EntryStore]:
    """A store that has connected."""
    made = RedisStore(connect(url), clocks, structlog.get_logger())
    made.start()
    await made.get(OTHER)
    yield made
    await made.close()


async def back(store: EntryStore) -> None:
    """Wait until it is asked again."""
    misses = store.stats.misses
    async with asyncio.timeout(15):
        while store.stats.misses == misses:
            await store.get(OTHER)
            await asyncio.sleep(0.02)


class Proxy:
    """Stands between a store and Redis: adds `delay_s` to answers, and cuts all connections when told."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.delay_s = 0.0
        self.url = ""

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Proxy]:
        """Listen on a port of its own."""
        server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        self.url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
        yield self
        server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """End every connection in the middle."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, there_writer]
        loop = asyncio.get_running_loop()
        self._tasks.append(loop.create_task(self._pump(reader, there_writer, answers=False)))
        self._tasks.append(loop.create_task(self._pump(there_reader, writer, answers=True)))

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        try:
            while data := await reader.read(65536):
                if answers:
                    await asyncio.sleep(self.delay_s)
                writer.write(data)
        except OSError:
            pass
        writer.close()


async def test_every_key_has_a_time_to_live(redis: RedisServer, store: EntryStore) -> None:
    """Set in the command that writes it."""
    store.put(KEY, answer())
    await written(store)
    left = int(redis.command("PTTL", f"{PREFIX}{KEY.hex()}")[1:])
    assert 50_000 < left <= 60_000


async def test_a_read_is_one_round_trip_about_one_key(redis: RedisServer, store: EntryStore) -> None:
    """So is a write: a cluster may keep them."""
    store.put(KEY, answer())
    await written(store)
    redis.command("CONFIG", "RESETSTAT")
    for _ in range(20):
        assert await store.get(KEY) is not None
    store.put(KEY, answer())
    await written(store, 2)
    told = [
        (words[0], words[1])
        for words in (
            line.replace("cmdstat_", "").replace(":calls", "").replace(",", "=").split("=")
            for line in redis.command("INFO", "commandstats").decode().splitlines()
            if line.startswith("cmdstat_")
        )
    ]
    counts = {name: int(calls) for name, calls in told if name not in ("config|resetstat", "info")}
    assert counts == {"get": 20, "set": 1}


async def test_a_cluster_keeps_answers(redis_cluster: RedisServer) -> None:
    """Its nodes refuse what names several slots."""
    async with opened(redis_cluster.url) as store:
        for number in range(20):
            store.put(numbered(number), answer(b'{"a": %d}' % number))
        await written(store, 20)
        for number in range(20):
            found = await store.get(numbered(number))
            assert found is not None
            assert found.body == b'{"a": %d}' % number


async def test_a_key_of_another_type_is_no_answer(redis: RedisServer, store: EntryStore) -> None:
    """And no reason to leave Redis alone: anybody could do that."""
    redis.command("RPUSH", f"{PREFIX}{KEY.hex()}", "x")
    assert await store.get(KEY) is None
    store.put(OTHER, answer())
    await written(store)
    assert await store.get(OTHER) is not None
    assert store.stats.failures == 0


async def test_a_redis_that_takes_no_writes_is_still_read(redis: RedisServer, store: EntryStore) -> None:
    """Full, say: told once; hits go on."""
    store.put(KEY, answer())
    await written(store)
    with capture_logs() as logged:
        redis.command("CONFIG", "SET", "maxmemory", "1")
        try:
            for number in range(20):
                store.put(numbered(number), answer())
                await asyncio.sleep(0.001)
            assert await store.get(KEY) is not None
            assert store.stats.dropped == 20
        finally:
            redis.command("CONFIG", "SET", "maxmemory", "0")
        async with asyncio.timeout(15):
            while store.stats.written < 2:
                store.put(OTHER, answer())
                await asyncio.sleep(0.05)
    assert [line["event"] for line in logged] == [
        "Redis takes no answers; what it has is still read",
        "Redis takes answers again",
    ]


async def test_a_frozen_redis_costs_a_few_milliseconds_and_then_nothing(
    redis: RedisServer, store: EntryStore
) -> None:
    """Three late reads at most, then none until it is back, not even the one that finds out; two lines."""
    with capture_logs() as logged:
        redis.freeze()
        try:
            took: list[float] = []
            async with asyncio.timeout(10):
                while len(took) < 500 or sum(took) < 1.5 * READ_WITHIN_S or store.stats.failures < 2:
                    began = time.monotonic()
                    assert await store.get(KEY) is None
                    took.append(time.monotonic() - began)
                    store.put(KEY, answer())
                    await asyncio.sleep(0.002)
            assert len([took_s for took_s in took if took_s > READ_WITHIN_S / 2]) <= LATE_WHEN_BUSY + 1
            assert statistics.median(took) < 0.001
        finally:
            redis.thaw()
        await back(store)
    assert [line["event"] for line in logged] == LINES


async def test_a_dead_redis_is_missed_by_nobody(redis: RedisServer, store: EntryStore) -> None:
    """Reads fail at once; when it is back, empty, it is used again."""
    with capture_logs() as logged:
        redis.kill()
        try:
            began = time.monotonic()
            for _ in range(500):
                assert await store.get(KEY) is None
                store.put(KEY, answer())
            assert time.monotonic() - began < 1
        finally:
            redis.start()
        async with asyncio.timeout(15):
            while await store.get(KEY) is None:
                store.put(KEY, answer())
                await asyncio.sleep(0.05)
    assert [line["event"] for line in logged] == LINES


async def test_a_slow_redis_is_left_alone(redis: RedisServer) -> None:
    """One that answers, but always too late, is not taken for well again; quick, it is."""
    async with Proxy(redis.port).listening() as proxy, opened(proxy.url) as store:
        with capture_logs() as logged:
            proxy.delay_s = 2 * READ_WITHIN_S
            async with asyncio.timeout(5):
                while store.stats.failures < 2:
                    await store.get(KEY)
                    await asyncio.sleep(0.01)
            assert [line["event"] for line in logged] == LINES[:1]
            proxy.delay_s = 0
            await back(store)
        assert [line["event"] for line in logged] == LINES


async def test_a_connection_that_is_cut_crosses_no_answers(redis: RedisServer) -> None:
    """Slow answers, and connections that break at any moment: a reader gets its own or none."""
    async with Proxy(redis.port).listening() as proxy, opened(proxy.url) as store:
        for number in range(40):
            store.put(numbered(number), answer(b'{"a": %d}' % number))
        await written(store, 40)
        for turn in range(40):
            proxy.delay_s = turn % 3 * 0.004
            reading = [asyncio.create_task(store.get(numbered(number))) for number in range(40)]
            await asyncio.sleep(turn % 5 * 0.002)
            reading[turn].cancel()
            if turn % 8 == 7:
                proxy.cut()
            for number, reply in enumerate(await asyncio.gather(*reading, return_exceptions=True)):
                assert not isinstance(reply, Exception)
                assert not isinstance(reply, StoredAnswer) or reply.body == b'{"a": %d}' % number
        proxy.delay_s = 0
        await back(store)
        found = await store.get(numbered(7))
        assert found is not None
        assert found.body == b'{"a": 7}'


def test_a_wrong_address_is_refused_at_once() -> None:
    """Before anything is served."""
    with pytest.raises(ValueError, match="cannot be read"):
        connect("http://127.0.0.1")


@pytest.mark.parametrize(
    "url", ["redis://:top/secret@host:6379/0", "redis://u:top#secret@host", "http://top-secret"]
)
def test_a_url_that_cannot_be_read_is_not_quoted(url: str) -> None:
    """It may hold a password; the sentence says how one is written."""
    with pytest.raises(ValueError, match="%2F") as caught:
        connect(url)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
