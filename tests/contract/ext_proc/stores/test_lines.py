"""Connections in hand, to a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ext_proc.stores.lines import STALE_S, Lines
from ext_proc.stores.redis import connect
from tests.harness.redis import RedisServer


@pytest.fixture
async def client(redis: RedisServer) -> AsyncIterator[Redis]:
    """A client of a Redis that is there."""
    made = connect(redis.url)
    yield made
    await made.aclose()


async def test_each_command_has_its_reply(client: Redis) -> None:
    """In their order; an error is a reply, and the next commands go on."""
    lines = Lines(client)
    for _ in range(2):
        one, error, two = await lines.replies([("ECHO", "one"), ("NONE",), ("ECHO", b"two")])
        assert (one, two) == (b"one", b"two")
        assert isinstance(error, ResponseError)
    await lines.close()


async def test_many_at_once_have_connections_of_their_own(client: Redis) -> None:
    """Nobody reads what is another's."""
    lines = Lines(client)
    texts = [str(number) for number in range(3)]
    replies = await asyncio.gather(*(lines.replies([("ECHO", text)]) for text in texts))
    assert [reply for (reply,) in replies] == [text.encode() for text in texts]
    await lines.close()


async def test_a_connection_that_was_closed_while_idle_is_replaced(client: Redis, redis: RedisServer) -> None:
    """Nobody hears of it after a pause; one that is silent is an error, and the next call has another."""
    lines = Lines(client)
    await lines.replies([("PING",)])
    assert redis.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") == b":1\r\n"
    await asyncio.sleep(STALE_S)
    assert await lines.replies([("ECHO", "there")]) == [b"there"]
    with pytest.raises(TimeoutError):
        await lines.replies([("BLPOP", "nothing here", "30")])
    assert await lines.replies([("ECHO", "again")]) == [b"again"]
    await lines.close()
