"""Scripts in Redis, many to a round trip."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import structlog
from structlog.testing import capture_logs

from ext_proc.stores.neighbour import Away
from ext_proc.stores.redis import connect
from ext_proc.stores.shared_limits import RENEW
from ext_proc.stores.trips import TOGETHER, Order, Script, Trips
from tests.harness.redis import RedisServer


class Text(Script):
    """A script that a test writes."""

    def __init__(self, text: str) -> None:
        whole = Script("renew_limits.lua")
        self.text = text
        self.digest = hashed(text) if text != whole.text else whole.digest


def hashed(text: str) -> str:
    """Return the digest that Redis gives a script."""
    import hashlib  # noqa: PLC0415

    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


ECHO = Text("return ARGV[1]")


@pytest.fixture
async def trips(redis: RedisServer) -> AsyncIterator[Trips]:
    """Trips to a Redis that is there."""
    client = connect(redis.url)
    made = Trips(
        client, time.monotonic, structlog.get_logger(), opens="Redis is away", closes="Redis is back"
    )
    yield made
    await made.close()
    await client.aclose()


async def test_everybody_gets_the_own_reply(trips: Trips) -> None:
    """However many go at once, also when Redis does not know the script any more."""
    orders = [trips.send(Order(ECHO, [], [str(number)])) for number in range(5 * TOGETHER)]
    replies = await asyncio.gather(*(order.answer for order in orders))
    assert replies == [str(number).encode() for number in range(5 * TOGETHER)]


async def test_scripts_may_be_flushed_at_any_time(trips: Trips, redis: RedisServer) -> None:
    """They are loaded again; nothing is lost, and nothing is run twice."""
    count = Text("return redis.call('INCR', KEYS[1])")
    redis.command("DEL", "counted")
    for _ in range(10):
        orders = [trips.send(Order(count, ["counted"], [])) for _ in range(20)]
        redis.command("SCRIPT", "FLUSH")
        await asyncio.gather(*(order.answer for order in orders))
    assert redis.command("GET", "counted") == b"$3\r\n200\r\n"
    redis.command("DEL", "counted")


async def test_what_a_script_makes_of_a_foreign_key_is_nobodys_outage(
    trips: Trips, redis: RedisServer
) -> None:
    """Its caller hears that there is no answer; the others go on."""
    redis.command("DEL", "foreign")
    redis.command("LPUSH", "foreign", "x")
    bad = trips.send(Order(Text("return redis.call('GET', KEYS[1])"), ["foreign"], []))
    good = trips.send(Order(ECHO, [], ["here"]))
    assert await good.answer == b"here"
    with pytest.raises(Away):
        await bad.answer
    assert not trips.is_away()
    redis.command("DEL", "foreign")


async def test_a_silent_server_is_left_alone(trips: Trips, redis: RedisServer) -> None:
    """Once, after a moment; then at once. A reply that comes late is told to whom it concerns."""
    await trips.send(Order(ECHO, [], ["warm"])).answer
    await asyncio.gather(*(trips.send(Order(ECHO, [], ["warm"])).answer for _ in range(3 * TOGETHER)))
    late: list[bytes] = []
    redis.freeze()
    try:
        with capture_logs() as logs:
            first = trips.send(Order(ECHO, [], ["first"], late=late.append))
            began = time.monotonic()
            with pytest.raises(Away):
                await first.answer
            assert time.monotonic() - began < 1.0
            assert trips.is_away()
            began = time.monotonic()
            with pytest.raises(Away):
                await trips.send(Order(ECHO, [], ["second"], late=late.append)).answer
            assert time.monotonic() - began < 0.04
            assert [log["event"] for log in logs] == ["Redis is away"]
    finally:
        redis.thaw()
    async with asyncio.timeout(5):
        while not late:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)
    assert late == [b"first"]


async def test_a_script_of_several_files_is_one() -> None:
    """By the digest of all its text."""
    whole = Script("window.lua", "settle.lua")
    assert whole.text.startswith("-- What the scripts of limits begin with")
    assert whole.digest == hashed(whole.text)
    assert RENEW.digest != whole.digest


async def test_without_a_server_nobody_waits(trips: Trips) -> None:
    """Refused connections are an outage, too."""
    client = connect("redis://127.0.0.1:1/0")
    nowhere = Trips(client, time.monotonic, structlog.get_logger(), opens="away", closes="back")
    with pytest.raises(Away):
        await nowhere.send(Order(ECHO, [], ["x"])).answer
    assert nowhere.is_away()
    await nowhere.close()
    await client.aclose()
