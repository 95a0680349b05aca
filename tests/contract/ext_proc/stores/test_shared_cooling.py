"""Processors that tell each other which Backends cool, through a real Redis."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest
import structlog
from redis import Redis as PlainRedis

from ext_proc.answers import Clocks
from ext_proc.stores.redis import connect
from ext_proc.stores.shared_cooling import CHANNEL, COOLING, RedisCooling
from tests.harness.redis import RedisServer

Heard = list[tuple[str, float]]
Make = Callable[[str], tuple[RedisCooling, Heard]]


def clocks() -> Clocks:
    """Return both clocks, now."""
    return Clocks(time.time(), time.monotonic())


@pytest.fixture
async def processor(redis: RedisServer) -> AsyncIterator[Make]:
    """Open one more processor, by its name; Redis is empty at first."""
    redis.command("FLUSHALL")
    async with AsyncExitStack() as opened:

        def make(name: str) -> tuple[RedisCooling, Heard]:
            client = connect(redis.url)
            opened.push_async_callback(client.aclose)
            made, heard = RedisCooling(client, clocks, structlog.get_logger(), name), []
            opened.push_async_callback(made.close)
            made.listen(lambda backend, wait_s: heard.append((backend, wait_s)))
            return made, heard

        yield make


async def until(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    """Wait for what others tell."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - what is heard has no event for tests
            await asyncio.sleep(0.01)


async def listens(redis: RedisServer, processors: int) -> None:
    """Wait until so many have subscribed."""
    with PlainRedis.from_url(redis.url) as plain:
        await until(lambda: plain.pubsub_numsub(CHANNEL)[0][1] == processors)


async def test_what_one_finds_out_all_hear(processor: Make, redis: RedisServer) -> None:
    """Except itself; a shorter time says nothing new."""
    (one, mine), (_, theirs) = processor("one"), processor("other")
    await listens(redis, 2)
    one.tell("b with spaces", 5.0)
    await until(lambda: bool(theirs))
    assert theirs == [("b with spaces", 5.0)]
    one.tell("b with spaces", 2.0)
    one.tell("b with spaces", 9.0)
    await until(lambda: len(theirs) == 2)
    assert theirs[1] == ("b with spaces", 9.0)
    assert all(
        wait_s < 5.0 for _, wait_s in mine
    )  # of its own it only sees what it looked up in the beginning


async def test_who_comes_later_hears_what_is_left(processor: Make, redis: RedisServer) -> None:
    """And nothing of what may be asked again; all of it is gone when the last one cools no more."""
    one, _ = processor("one")
    one.tell("short", 0.01)
    one.tell("b", 5.0)
    one.tell("other", 2.0)
    with PlainRedis.from_url(redis.url) as plain:
        await until(lambda: plain.zscore(COOLING, "other") is not None)
        assert 4000 < plain.pttl(COOLING) <= 5000
    await asyncio.sleep(0.02)
    _, heard = processor("late")
    await until(lambda: len(heard) == 2)
    found = dict(heard)
    assert found.keys() == {"b", "other"}
    assert 3.0 < found["b"] <= 5.0
    assert 0.0 < found["other"] <= 2.0


async def test_what_anybody_may_have_put_there(processor: Make, redis: RedisServer) -> None:
    """What is said is heard all the same."""
    with PlainRedis.from_url(redis.url) as plain:
        plain.set(COOLING, "mine")
    _, heard = processor("one")
    await listens(redis, 1)
    with PlainRedis.from_url(redis.url) as plain:
        plain.publish(CHANNEL, b"other 5000 b")
    await until(lambda: heard == [("b", 5.0)])


async def test_no_number_of_keys_fills_redis(processor: Make, redis: RedisServer) -> None:
    """Those that may be asked again first make room."""
    with PlainRedis.from_url(redis.url) as plain:
        plain.zadd(COOLING, {f"b#{number}": (time.time() + 600) * 1000 + number for number in range(10_000)})
        processor("one")[0].tell("b", 900.0)
        await until(lambda: plain.zscore(COOLING, "b") is not None)
        assert plain.zcard(COOLING) == 10_000
        assert plain.zscore(COOLING, "b#0") is None


async def test_a_connection_that_is_lost_is_made_again(processor: Make, redis: RedisServer) -> None:
    """What was said meanwhile is looked up."""
    (one, _), (_, heard) = processor("one"), processor("other")
    await listens(redis, 2)
    redis.command("CLIENT", "KILL", "TYPE", "pubsub")
    one.tell("b", 8.0)
    await until(lambda: bool(heard))
    assert heard[0][0] == "b"


@pytest.mark.parametrize(
    "data", [b"", b"x", b"other b 5", b"other -5 b", b"other 99999999999999999 b", b"\xff \xfe 5"]
)
async def test_what_anybody_may_have_written(processor: Make, redis: RedisServer, data: bytes) -> None:
    """Is nothing, and what comes after it is heard."""
    (one, _), (_, heard) = processor("one"), processor("other")
    await listens(redis, 2)
    with PlainRedis.from_url(redis.url) as plain:
        plain.publish(CHANNEL, data)
    one.tell("b", 5.0)
    await until(lambda: bool(heard))
    assert {backend for backend, _ in heard} == {"b"}
    assert all(4.0 < wait_s <= 5.0 for _, wait_s in heard)


async def test_without_redis_nobody_waits(processor: Make, redis: RedisServer) -> None:
    """Each finds out by itself."""
    one, _ = processor("one")
    redis.freeze()
    try:
        begun = time.monotonic()
        for _ in range(100):
            one.tell("b", 5.0)
        assert time.monotonic() - begun < 0.1
    finally:
        redis.thaw()
