"""Flights of several processors over a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from ext_proc.flights import Landed
from ext_proc.stores.entries import MAX_BODY_BYTES
from ext_proc.stores.leases import Held, Lease, RedisLeases
from ext_proc.stores.redis import connect
from ext_proc.stores.shared_flights import SharedFlights
from tests.contract.ext_proc.stores.conftest import KEY, clocks
from tests.harness.redis import RedisServer

LANDED = Landed(b'{"choices": []}', "application/json", "b")


@asynccontextmanager
async def processor(server: RedisServer) -> AsyncIterator[SharedFlights]:
    """The shared flights of one processor, connected."""
    client = connect(server.url)
    await client.ping()
    flights = SharedFlights(RedisLeases(client, clocks, structlog.get_logger()), clocks)
    yield flights
    await flights.close()
    await client.aclose()


async def lead(flights: SharedFlights) -> Lease | Held:
    """Ask for the lead until Redis says who has it."""
    async with asyncio.timeout(5):
        while (taken := await flights.lead(KEY)) is None:
            pass
    return taken


async def test_the_others_hear_what_the_leader_got(redis: RedisServer) -> None:
    """Body, type and Backend; afterwards the lead is free."""
    redis.command("FLUSHALL")
    async with processor(redis) as here, processor(redis) as there:
        mine, theirs = await lead(here), await lead(there)
        assert isinstance(mine, Lease)
        assert isinstance(theirs, Held)
        assert (here.is_lead(mine), there.is_lead(theirs)) == (True, False)
        hearing = asyncio.create_task(there.hear(theirs, 5))
        here.end(mine, LANDED)
        assert await hearing == LANDED
        assert isinstance(await lead(there), Lease)


async def test_a_leader_without_an_answer_sends_the_others_on(redis: RedisServer) -> None:
    """Also when the answer is too long to be shared, and when its processor ends."""
    for landed in (None, Landed(b"x" * (MAX_BODY_BYTES + 1), "application/json")):
        redis.command("FLUSHALL")
        async with processor(redis) as here, processor(redis) as there:
            mine, theirs = await lead(here), await lead(there)
            assert isinstance(mine, Lease)
            assert isinstance(theirs, Held)
            here.end(mine, landed)
            assert await there.hear(theirs, 5) is None
    redis.command("FLUSHALL")
    async with processor(redis) as there:
        async with processor(redis) as here:
            await lead(here)
            theirs = await lead(there)
            assert isinstance(theirs, Held)
        assert await there.hear(theirs, 5) is None


async def test_the_wait_is_bounded(redis: RedisServer) -> None:
    """However long the leader takes."""
    redis.command("FLUSHALL")
    async with processor(redis) as here, processor(redis) as there:
        await lead(here)
        theirs = await lead(there)
        assert isinstance(theirs, Held)
        assert await there.hear(theirs, 0.1) is None
