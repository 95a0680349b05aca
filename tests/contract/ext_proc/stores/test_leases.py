"""Leases in a real Redis, of several processors, well, dead and frozen."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog
from structlog.testing import capture_logs

from ext_proc.stores.leases import PREFIX, TAKE_WITHIN_S, Held, Lease, RedisLeases
from ext_proc.stores.redis import connect
from tests.contract.ext_proc.stores.conftest import KEY, clocks, numbered
from tests.harness.redis import RedisServer


@asynccontextmanager
async def processor(server: RedisServer) -> AsyncIterator[RedisLeases]:
    """The leases of one processor, connected."""
    client = connect(server.url)
    leases = RedisLeases(client, clocks, structlog.get_logger())
    async with asyncio.timeout(5):
        while (warm := await leases.take(b"warm", 1.0)) is None:  # noqa: ASYNC110 - it is asked, not told
            await asyncio.sleep(0.05)
    if isinstance(warm, Lease):
        await leases.release(warm, None)
    yield leases
    await leases.close()
    await client.aclose()


@pytest.fixture(params=["one", "cluster"])
def server(request: pytest.FixtureRequest) -> RedisServer:
    """An empty Redis, and one that is a cluster."""
    found: RedisServer = request.getfixturevalue("redis" if request.param == "one" else "redis_cluster")
    found.command("FLUSHALL")
    return found


@pytest.fixture
async def here(server: RedisServer) -> AsyncIterator[RedisLeases]:
    """The leases of a processor."""
    async with processor(server) as made:
        yield made


@pytest.fixture
async def there(server: RedisServer) -> AsyncIterator[RedisLeases]:
    """The leases of another one."""
    async with processor(server) as made:
        yield made


async def told(leases: RedisLeases, key: bytes, for_s: float = 5.0) -> Lease | Held:
    """Return the lease of `key` or who has it, asking again as long as this machine is too busy to tell."""
    async with asyncio.timeout(10):
        while (said := await leases.take(key, for_s)) is None:  # noqa: ASYNC110 - it is asked, not told
            await asyncio.sleep(0.02)
    return said


async def led(leases: RedisLeases, key: bytes = KEY, for_s: float = 5.0) -> Lease:
    """Return the lease of `key` as soon as it can be had."""
    async with asyncio.timeout(15):
        while not isinstance(lease := await told(leases, key, for_s), Lease):  # noqa: ASYNC110 - likewise
            await asyncio.sleep(0.01)
    return lease


async def found_held(leases: RedisLeases, key: bytes = KEY) -> Held:
    """Return who has the lease of `key`."""
    held = await told(leases, key)
    assert isinstance(held, Held)
    return held


async def test_one_leads_and_the_others_get_its_answer(here: RedisLeases, there: RedisLeases) -> None:
    """Soon, all of them, byte for byte; then the lease is free."""
    lease = await led(here)
    held = await found_held(there)
    assert held.owner == lease.owner
    waiting = [asyncio.create_task(there.outcome(held, 5.0)) for _ in range(200)]
    await asyncio.sleep(0.1)
    answer = bytes(range(256)) * 4_000
    assert await here.release(lease, answer)
    told = time.monotonic()
    assert await asyncio.gather(*waiting) == [answer] * 200
    assert time.monotonic() - told < 1
    again = await led(there)
    assert await there.release(again, None)


async def test_of_many_who_take_at_once_one_has_it(server: RedisServer) -> None:
    """Whichever is first; never two."""
    async with processor(server) as a, processor(server) as b, processor(server) as c:
        for number in range(5):
            taken = await asyncio.gather(*(told(leases, numbered(number)) for leases in (a, b, c) * 2))
            kinds = Counter(type(one) for one in taken)
            assert kinds in ({Lease: 1, Held: 5}, {Held: 6})
            # Who does not hear in time that it leads, on a busy machine, gives the lease back and asks again:
            # it hears of itself, or another one has it then.
            if kinds[Lease] and len({one.owner for one in taken}) == 1:
                return
        pytest.fail("five times somebody did not hear in time that it leads")


async def test_a_leader_that_fails_sends_the_others_on(here: RedisLeases, there: RedisLeases) -> None:
    """No answer is left behind."""
    lease = await led(here)
    waiting = asyncio.create_task(there.outcome(await found_held(there), 5.0))
    assert await here.release(lease, None)
    assert await waiting is None


async def test_an_answer_is_only_for_those_who_waited_for_its_leader(
    here: RedisLeases, there: RedisLeases
) -> None:
    """The next flight of the same question never ends with the answer of the one before."""
    await here.release(await led(here), b"old")
    lease = await led(here)
    waiting = asyncio.create_task(there.outcome(await found_held(there), 5.0))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    await here.release(lease, b"new")
    assert await waiting == b"new"


async def test_waiting_has_an_end(here: RedisLeases, there: RedisLeases) -> None:
    """The flight goes on; so do others who wait for it."""
    lease = await led(here)
    held = await found_held(there)
    longer = asyncio.create_task(there.outcome(held, 5.0))
    began = time.monotonic()
    assert await there.outcome(held, 0.05) is None
    assert time.monotonic() - began < 0.5
    leaving = asyncio.create_task(there.outcome(held, 5.0))
    await asyncio.sleep(0)
    leaving.cancel()
    await here.release(lease, b"answer")
    assert await longer == b"answer"


async def test_a_lease_lasts_as_long_as_its_leader_works(here: RedisLeases, there: RedisLeases) -> None:
    """Much longer than its time to live; without its leader it ends by that."""
    lease = await led(here, for_s=0.3)
    held = await found_held(there)
    waiting = asyncio.create_task(there.outcome(held, 5.0))
    await asyncio.sleep(0.8)
    assert not waiting.done()
    for task in here._renewing.values():
        task.cancel()  # as the leader's death does
    assert await waiting is None
    other = await led(there)
    assert not await here.release(lease, b"late")
    assert here.tally.lost == 1
    assert await there.release(other, None)


async def test_every_key_has_a_time_to_live(here: RedisLeases, server: RedisServer) -> None:
    """The lease, and the answer after it."""
    lease = await led(here)
    assert 0 < int(server.command("PTTL", f"{PREFIX}{{{KEY.hex()}}}:lease")[1:]) <= 5_000
    await here.release(lease, b"answer")
    assert 0 < int(server.command("PTTL", f"{PREFIX}{{{KEY.hex()}}}:answer")[1:]) <= 10_000
    assert server.command("EXISTS", f"{PREFIX}{{{KEY.hex()}}}:lease") == b":0\r\n"


async def test_one_who_leaves_while_taking_leaves_no_lease(here: RedisLeases, there: RedisLeases) -> None:
    """Whatever moment it is."""
    for pause_s in (0.0, 0.0002, 0.0005, 0.001):
        taking = asyncio.create_task(here.take(KEY, 5.0))
        await asyncio.sleep(pause_s)
        taking.cancel()
        (lease,) = await asyncio.gather(taking, return_exceptions=True)
        if isinstance(lease, Lease):
            await here.release(lease, None)
        async with asyncio.timeout(2):
            await there.release(await led(there), None)


async def test_closing_gives_back_and_sends_on(server: RedisServer) -> None:
    """Nobody waits for a processor that has gone in order."""
    async with processor(server) as there:
        async with processor(server) as here:
            await led(here)
            held = await found_held(there)
            waiting = asyncio.create_task(there.outcome(held, 5.0))
        assert await waiting is None
        lease = await led(there)
        async with processor(server) as third:
            stuck = asyncio.create_task(third.outcome(await found_held(third), 60.0))
            await asyncio.sleep(0.02)
        assert await stuck is None
        await there.release(lease, None)


async def test_many_questions_are_polled_at_a_bounded_rate(redis: RedisServer) -> None:
    """However many wait."""
    async with processor(redis) as here, processor(redis) as there:
        leases = [await led(here, numbered(number)) for number in range(300)]
        held = [await found_held(there, numbered(number)) for number in range(300)]
        waiting = [asyncio.create_task(there.outcome(one, 20.0)) for one in held for _ in range(3)]
        await asyncio.sleep(0.3)
        redis.command("CONFIG", "RESETSTAT")
        await asyncio.sleep(0.6)
        said = redis.command("INFO", "commandstats").decode()
        polls = int(said.partition("cmdstat_mget:calls=")[2].partition(",")[0])
        assert 100 <= polls <= 1_200
        for number, lease in enumerate(leases):
            await here.release(lease, b"%d" % number)
        assert await asyncio.gather(*waiting) == [b"%d" % number for number in range(300) for _ in range(3)]


@pytest.mark.parametrize("dead", [True, False], ids=["dead", "frozen"])
async def test_without_redis_everybody_leads(redis: RedisServer, dead: bool) -> None:
    """Within a few milliseconds; who waits is sent on; told once, and shared again when it is back."""
    redis.command("FLUSHALL")
    async with processor(redis) as here, processor(redis) as there:
        lease = await led(here)
        waiting = asyncio.create_task(there.outcome(await found_held(there), 60.0))
        with capture_logs() as logged:
            if dead:
                redis.kill()
            else:
                redis.freeze()
            try:
                for _ in range(50):
                    began = time.monotonic()
                    assert await there.take(numbered(1), 5.0) is None
                    assert time.monotonic() - began < 5 * TAKE_WITHIN_S
                async with asyncio.timeout(5):
                    assert await waiting is None
                    assert not await here.release(lease, b"answer")
            finally:
                if dead:
                    redis.start()
                else:
                    redis.thaw()
            async with asyncio.timeout(15):
                await there.release(await led(there, numbered(2)), None)
        events = Counter(line["event"] for line in logged)
    assert events["Redis does not answer; each processor leads its own flights"] <= 2
    assert events["Redis is back; processors share flights"] >= 1
    assert there.tally.unavailable >= 50
