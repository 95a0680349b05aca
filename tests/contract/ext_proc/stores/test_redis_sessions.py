"""Sessions in Redis: what is special about it. The suite of all stores: test_shared_sessions."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ext_proc.answers import Clocks
from ext_proc.sessions.records import Kept, tenths
from ext_proc.stores.neighbour import Away
from ext_proc.stores.redis import connect
from ext_proc.stores.redis_sessions import PREFIX, RedisSessions
from tests.contract.ext_proc.stores.conftest import KEY, clocks
from tests.harness.redis import RedisServer

# So early that records may have numbers on either side of it.
NOON_S = 0.3
NAME = f"{PREFIX}{KEY.hex()}"
STEPS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(1, 300_000), st.binary(max_size=4)), max_size=2),
        st.integers(1, 4),
        st.sampled_from(("draw", "tell", "erase")),
    ),
    max_size=6,
)


@pytest.fixture
async def store(redis: RedisServer) -> AsyncIterator[RedisSessions]:
    """A store in an empty Redis."""
    redis.command("FLUSHALL")
    client = connect(redis.url)
    made = RedisSessions(client, lambda: Clocks(NOON_S, clocks().own), structlog.get_logger())
    yield made
    await made.close()
    await client.aclose()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(STEPS)
async def test_the_script_does_what_the_arithmetic_says(
    store: RedisSessions, redis: RedisServer, steps: list[tuple[list[tuple[int, bytes]], int, str]]
) -> None:
    """Whatever comes in, however many are kept."""
    redis.command("DEL", NAME)
    kept = Kept()
    for records, keep, does in steps:
        if does == "erase":
            await store.erase(KEY, ttl_ms=10_000)
            kept.erase(tenths(NOON_S))
            continue
        draw = does == "draw"
        found = await store.renew(KEY, records, ttl_ms=10_000, keep=keep, draw=draw)
        kept.take(records, keep)
        assert found.number == (kept.draw(at=tenths(NOON_S)) if draw else kept.last)
        assert found.records == kept.in_order()


async def test_every_key_has_a_time_to_live(store: RedisSessions, redis: RedisServer) -> None:
    """From its first moment, and a session that nothing was kept of has no key at all."""
    await store.renew(KEY, (), ttl_ms=10_000, keep=4, draw=False)
    assert redis.command("EXISTS", NAME) == b":0\r\n"
    for records, draw in ([], True), ([(1, b"x")], False):
        await store.renew(KEY, records, ttl_ms=10_000, keep=4, draw=draw)
        assert 9_000 < int(redis.command("PTTL", NAME)[1:]) <= 10_000
    await store.erase(KEY, ttl_ms=5_000)
    assert 4_000 < int(redis.command("PTTL", NAME)[1:]) <= 5_000


async def test_what_somebody_else_put_there_is_nobodys_outage(
    store: RedisSessions, redis: RedisServer
) -> None:
    """Another kind of value is left alone; fields that mean nothing are."""
    redis.command("LPUSH", NAME, "x")
    with pytest.raises(Away):
        await store.renew(KEY, (), ttl_ms=10_000, keep=4, draw=True)
    redis.command("DEL", NAME)
    redis.command("HSET", NAME, "odd", "x", "last", "no number")
    assert (await store.renew(KEY, [(1, b"x")], ttl_ms=10_000, keep=4, draw=False)).records == ((1, b"x"),)


async def test_a_frozen_redis_is_left_alone(store: RedisSessions, redis: RedisServer) -> None:
    """After a moment; then at once."""
    await store.renew(KEY, (), ttl_ms=10_000, keep=4, draw=True)
    redis.freeze()
    try:
        for within_s in (1.0, 0.05):
            begun = time.monotonic()
            with pytest.raises(Away):
                await store.renew(KEY, (), ttl_ms=10_000, keep=4, draw=True)
            assert time.monotonic() - begun < within_s
    finally:
        redis.thaw()
