"""Flights of several processors over a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog

from ext_proc.flights import Follow, Landed, Lead
from ext_proc.stores.entries import MAX_BODY_BYTES
from ext_proc.stores.leases import RedisLeases
from ext_proc.stores.redis import connect
from ext_proc.stores.shared_flights import SharedFlights, decode_landed, encode_landed
from tests.contract.ext_proc.stores.conftest import KEY, clocks
from tests.harness.redis import RedisServer

LANDED = Landed(b'{"choices": []}', "application/json", "b")


@asynccontextmanager
async def processor(server: RedisServer) -> AsyncIterator[SharedFlights]:
    """The shared flights of one processor, connected."""
    client = connect(server.url)
    await client.ping()
    flights = SharedFlights(RedisLeases(client, clocks, structlog.get_logger()))
    yield flights
    await flights.close()
    await client.aclose()


async def taken(flights: SharedFlights) -> Lead | Follow:
    """Ask for the lead until Redis says who has it."""
    async with asyncio.timeout(5):
        while (found := await flights.lead(KEY)) is None:
            pass
    return found


async def both(here: SharedFlights, there: SharedFlights) -> tuple[Lead, Follow]:
    """Return the lead of the one and whom the other follows."""
    mine, theirs = await taken(here), await taken(there)
    assert isinstance(mine, Lead)
    assert isinstance(theirs, Follow)
    return mine, theirs


async def test_the_others_hear_what_the_leader_got(redis: RedisServer) -> None:
    """Body, type and Backend; afterwards the lead is free."""
    redis.command("FLUSHALL")
    async with processor(redis) as here, processor(redis) as there:
        mine, theirs = await both(here, there)
        hearing = asyncio.ensure_future(theirs.hear(5))
        mine.end(LANDED)
        assert await hearing == LANDED
        assert isinstance(await taken(there), Lead)


async def test_a_leader_without_an_answer_sends_the_others_on(redis: RedisServer) -> None:
    """Also when the answer is too long to be shared, and when its processor ends."""
    for landed in (None, Landed(b"x" * (MAX_BODY_BYTES + 1), "application/json")):
        redis.command("FLUSHALL")
        async with processor(redis) as here, processor(redis) as there:
            mine, theirs = await both(here, there)
            mine.end(landed)
            assert await theirs.hear(5) is None
    redis.command("FLUSHALL")
    async with processor(redis) as there:
        async with processor(redis) as here:
            _, theirs = await both(here, there)
        assert await theirs.hear(5) is None


async def test_the_wait_is_bounded(redis: RedisServer) -> None:
    """However long the leader takes."""
    redis.command("FLUSHALL")
    async with processor(redis) as here, processor(redis) as there:
        _, theirs = await both(here, there)
        assert await theirs.hear(0.1) is None


@pytest.mark.parametrize(
    "landed", [LANDED, Landed(b"a\nb\n", "text/plain; charset=utf-8", ""), Landed(b"", "t")]
)
def test_an_answer_comes_back_as_it_was(landed: Landed) -> None:
    """Byte for byte."""
    assert decode_landed(encode_landed(landed)) == landed


@pytest.mark.parametrize(
    "data", [b"", b"{}\nx", b'["a"]\nx', b'["a", 5]\nx', b'["a\\n", "b"]\nx', b'["a", "b"]']
)
def test_anything_else_is_no_answer(data: bytes) -> None:
    """Somebody else may have written it."""
    assert decode_landed(data) is None
