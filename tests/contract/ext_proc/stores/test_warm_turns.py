"""Whose turn it is, by a real Redis."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import structlog
from redis import Redis as PlainRedis

from ext_proc.answers import Clocks
from ext_proc.stores.redis import connect
from ext_proc.stores.warm_turns import PREFIX, RedisTurns
from tests.harness.redis import RedisServer


def clocks() -> Clocks:
    """Return both clocks, now."""
    return Clocks(time.time(), time.monotonic())


@pytest.fixture
async def two(redis: RedisServer) -> AsyncIterator[tuple[RedisTurns, RedisTurns]]:
    """Two processors of one Redis, which is empty at first."""
    redis.command("FLUSHALL")
    clients = [connect(redis.url) for _ in range(2)]
    one, other = [RedisTurns(client, clocks, structlog.get_logger()) for client in clients]
    yield one, other
    await one.close()
    await other.close()
    for client in clients:
        await client.aclose()


async def test_one_of_several_has_the_turn(two: tuple[RedisTurns, RedisTurns], redis: RedisServer) -> None:
    """Until the time is over; each Backend has its own."""
    one, other = two
    taken = await asyncio.gather(one.take("b", 60.0), other.take("b", 60.0))
    assert sorted(taken) == [False, True]
    assert await other.take("c", 0.05)
    await asyncio.sleep(0.08)
    assert await one.take("c", 60.0)
    with PlainRedis.from_url(redis.url) as client:
        assert 0 < int(client.pttl(f"{PREFIX}b")) <= 60_000


async def test_whoever_calls_spares_the_others_the_trouble(two: tuple[RedisTurns, RedisTurns]) -> None:
    """A provider in use needs no waking by anybody; it is told now and then only."""
    one, other = two
    for _ in range(50):
        one.used("b", 60.0)
    assert len(one._telling) == 1
    await asyncio.gather(*one._telling)
    assert not await other.take("b", 60.0)


async def test_without_redis_each_wakes_by_itself(redis: RedisServer) -> None:
    """Nobody waits for it, and nothing is raised."""
    client = connect("redis://127.0.0.1:1/0")
    turns = RedisTurns(client, clocks, structlog.get_logger())
    assert await turns.take("b", 60.0)
    turns.used("b", 60.0)
    await turns.close()
    await client.aclose()
