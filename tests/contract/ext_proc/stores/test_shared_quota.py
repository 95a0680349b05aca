"""Quotas of Backends: one suite over memory and a real Redis; the script and the pure sums; processors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest
import structlog
from redis import Redis as PlainRedis

from ext_proc.answers import Clocks
from ext_proc.contract.snapshot import Quota
from ext_proc.limits.claims import Rate
from ext_proc.providers.quota import Ask, Draft, MemoryQuotas, Wait
from ext_proc.stages.hold import Quotas
from ext_proc.stores.redis import connect
from ext_proc.stores.shared_quota import DRAW, RedisQuotas
from tests.harness.redis import RedisServer

Make = Callable[[str], RedisQuotas]


def clocks() -> Clocks:
    """Return both clocks, now."""
    return Clocks(time.time(), time.monotonic())


@pytest.fixture
async def processor(redis: RedisServer) -> AsyncIterator[Make]:
    """Open the quotas of one more processor, by its name; Redis is empty at first."""
    redis.command("FLUSHALL")
    async with AsyncExitStack() as opened:

        def make(name: str) -> RedisQuotas:
            client = connect(redis.url)
            opened.push_async_callback(client.aclose)
            made = RedisQuotas(client, clocks, structlog.get_logger(), name)
            opened.push_async_callback(made.close)
            return made

        yield make


@pytest.fixture(params=["memory", "redis"])
def quotas(request: pytest.FixtureRequest) -> Quotas:
    """Either of them."""
    if request.param == "memory":
        return MemoryQuotas(lambda: time.monotonic_ns() // 1000)
    made: Quotas = request.getfixturevalue("processor")("one")
    return made


async def drawn(quotas: Quotas, ask: Ask) -> Draft:
    """Draw what has to be there."""
    draft = await quotas.draw(ask)
    assert isinstance(draft, Draft), draft
    return draft


async def waits(quotas: Quotas, ask: Ask) -> Wait:
    """Draw what cannot be there."""
    wait = await quotas.draw(ask)
    assert isinstance(wait, Wait)
    return wait


async def soon(quotas: Quotas, ask: Ask) -> Draft:
    """Draw what is there as soon as Redis has heard of what came back."""
    async with asyncio.timeout(2):
        while not isinstance(draft := await quotas.draw(ask), Draft):  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.005)
        return draft


async def test_so_many_requests_a_minute(quotas: Quotas) -> None:
    """The next one hears when it fits; other Backends are none the worse."""
    ask = Ask("b", Quota(3))
    for _ in range(3):
        await drawn(quotas, ask)
    wait = await waits(quotas, ask)
    assert wait.rate is Rate.REQUESTS
    assert not wait.paced
    assert 58 < wait.wait_s <= 60.25
    await drawn(quotas, ask._replace(backend="other"))


async def test_tokens_are_settled_and_given_back(quotas: Quotas) -> None:
    """Once each."""
    ask = Ask("b", Quota(None, 1000), 500)
    first, second = await drawn(quotas, ask), await drawn(quotas, ask)
    assert (await waits(quotas, ask)).rate is Rate.TOKENS
    quotas.settle(first, 100)
    quotas.settle(first, 0)
    third = await soon(quotas, ask._replace(tokens=400))
    quotas.give_back(second)
    quotas.give_back(second)
    fourth = await soon(quotas, ask)
    assert isinstance(await quotas.draw(ask._replace(tokens=1)), Wait)
    quotas.settle(third, 900)
    quotas.settle(fourth, 0)
    await asyncio.sleep(0.05)
    assert isinstance(await quotas.draw(ask._replace(tokens=100)), Wait)


async def test_places_are_free_when_calls_end(quotas: Quotas) -> None:
    """And not before."""
    ask = Ask("b", Quota(None, None, 2))
    first, _ = await drawn(quotas, ask), await drawn(quotas, ask)
    assert (await waits(quotas, ask)).rate is Rate.CONCURRENCY
    quotas.settle(first, 0)
    quotas.release(first)
    quotas.release(first)
    await soon(quotas, ask)
    assert isinstance(await quotas.draw(ask), Wait)


async def test_what_went_without_asking_counts(quotas: Quotas) -> None:
    """A request at once, its tokens when they are known; it has no place."""
    ask = Ask("b", Quota(2, 1000, 1), 600)
    quotas.settle(quotas.charge(ask), 900)
    await asyncio.sleep(0.05)
    assert (await waits(quotas, ask)).rate is Rate.TOKENS
    draft = await drawn(quotas, ask._replace(tokens=100))
    quotas.settle(draft, 0)
    quotas.release(draft)
    await asyncio.sleep(0.05)
    assert (await waits(quotas, ask._replace(tokens=0))).rate is Rate.REQUESTS


async def test_a_pace_is_kept(quotas: Quotas) -> None:
    """After the first third, and only where it helps."""
    ask = Ask("b", Quota(900))
    for _ in range(300):
        await drawn(quotas, ask)
    wait = await waits(quotas, ask._replace(most_us=500_000))
    assert wait.paced
    assert 0.05 < wait.wait_s <= 0.1
    await drawn(quotas, ask._replace(most_us=1_000))


async def test_two_hundred_at_once_are_exactly_so_many(quotas: Quotas) -> None:
    """Whoever comes first."""
    ask = Ask("b", Quota(50, None, 100))
    found = await asyncio.gather(*(quotas.draw(ask) for _ in range(200)))
    assert sum(isinstance(one, Draft) for one in found) == 50


async def test_processors_share_a_quota(processor: Make) -> None:
    """Four of them, one quota; places of one are places of all."""
    four = [processor(name) for name in "abcd"]
    ask = Ask("b", Quota(40, None, 1000))
    found = await asyncio.gather(*(one.draw(ask) for one in four for _ in range(20)))
    assert sum(isinstance(one, Draft) for one in found) == 40
    narrow = Ask("n", Quota(None, None, 1))
    held = await drawn(four[0], narrow)
    assert isinstance(await four[1].draw(narrow), Wait)
    freed: list[str] = []
    four[0].on_freed = freed.append
    four[0].release(held)
    await soon(four[1], narrow)
    assert freed == ["n"]


async def test_a_frozen_redis_leaves_each_its_share(processor: Make, redis: RedisServer) -> None:
    """Two processors, half each, within a moment; what went meanwhile counts when it is back."""
    one, other = processor("one"), processor("other")
    ask = Ask("b", Quota(20))
    for quotas in (one, other, one):
        await drawn(quotas, ask)
    redis.freeze()
    try:
        begun = time.monotonic()
        found = [await one.draw(ask) for _ in range(20)]
        assert time.monotonic() - begun < 1.5
        assert sum(isinstance(draft, Draft) for draft in found) == 8
    finally:
        redis.thaw()
    await asyncio.sleep(1.5)
    found = []
    async with asyncio.timeout(5):
        while len(found) < 30:
            found.append(await one.draw(ask))
            await asyncio.sleep(0.01)
    # Three before, eight meanwhile; what Redis decided too late may count as well.
    assert 7 <= sum(isinstance(draft, Draft) for draft in found) <= 9


async def test_of_a_long_outage_no_more_is_told_than_counts_still(redis: RedisServer) -> None:
    """What went an hour ago is nothing to a quota of a minute."""
    redis.command("FLUSHALL")
    later: list[float] = []

    def moved() -> Clocks:
        return Clocks(time.time() + sum(later), time.monotonic() + sum(later))

    async with AsyncExitStack() as opened:
        client = connect(redis.url)
        opened.push_async_callback(client.aclose)
        quotas = RedisQuotas(client, moved, structlog.get_logger(), "one")
        opened.push_async_callback(quotas.close)
        ask = Ask("b", Quota(20))
        await drawn(quotas, ask)
        redis.freeze()
        try:
            for _ in range(15):
                await drawn(quotas, ask)
        finally:
            redis.thaw()
        later.append(3600.0)
        found = []
        for _ in range(30):
            found.append(await quotas.draw(ask))
            await asyncio.sleep(0.02)
    assert sum(isinstance(draft, Draft) for draft in found) >= 17


async def test_whoever_leaves_meanwhile_has_drawn_nothing(processor: Make) -> None:
    """The answer comes for nobody."""
    quotas = processor("one")
    ask = Ask("b", Quota(1))
    leaving = asyncio.ensure_future(quotas.draw(ask))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    await soon(quotas, ask)


async def test_the_script_does_the_pure_sums(redis: RedisServer) -> None:
    """Step by step, on the server's clock, with the same waits."""
    redis.command("FLUSHALL")
    plain = PlainRedis.from_url(redis.url)
    now = 0
    pure = MemoryQuotas(lambda: now)
    quota = Quota(60, 900)
    keys = ["{q}r", "{q}t", "{q}p", "{q}a"]
    with plain:
        for step in range(120):
            tokens, most_us = 1 + step % 23, (0, 400_000, 3_000_000)[step % 3]
            words = f"n{step} o 30000000 1 60 {tokens} 900 -1 {most_us} 0 0"
            reply: bytes = plain.eval(DRAW.text, len(keys), *keys, words)
            now, wait_us, _, fits, _ = map(int, reply.split())
            wait = pure.decide(Ask("b", quota, tokens, most_us=most_us))
            if wait_us:
                assert isinstance(wait, Wait)
                assert wait.wait_s * 1e6 == pytest.approx(wait_us, abs=1.0)
                assert wait.paced is bool(fits)
            else:
                assert isinstance(wait, Draft)


async def test_every_key_has_a_time_to_live(processor: Make, redis: RedisServer) -> None:
    """Nothing stays for ever."""
    quotas = processor("one")
    draft = await drawn(quotas, Ask("b", Quota(5, 500, 5), 100))
    quotas.settle(draft, 150)
    await asyncio.sleep(0.05)
    with PlainRedis.from_url(redis.url) as plain:
        keys = plain.keys("*")
        assert isinstance(keys, list)
        assert len(keys) == 4
        assert all(plain.pttl(key) > 0 for key in keys)
