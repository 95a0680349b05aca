"""Connections to Redis that are kept in hand, for commands that go many to a round trip.

A client takes a connection out of its pool for each command, looks whether it is still there, and puts it
back: for a short script that takes longer than the server does.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import ConnectionError, ResponseError

Command = Sequence[str | int | bytes]
STALE_S: Final = 0.1
"""A connection that lay idle for longer may have been closed by the other side."""
ANSWER_WITHIN_S: Final = 1.0
"""One that is silent for so long is given up."""


class Lines:
    """Connections of `client`'s pool, which has to be closed after this. For one event loop."""

    def __init__(self, client: Redis) -> None:
        self._pool = client.connection_pool
        self._idle: list[tuple[Any, float]] = []

    async def replies(self, commands: Sequence[Command]) -> list[Any]:
        """Send all commands at once; return their replies, of those that failed the errors.

        Raises:
            redis.exceptions.RedisError, OSError, TimeoutError: there is no connection, or it broke.
        """
        if self._idle:
            line, since = self._idle.pop()
            try:
                return await self._asked(line, commands)
            except ConnectionError:
                # The server closed it while nobody looked, so that nothing was run.
                if asyncio.get_running_loop().time() - since < STALE_S:
                    raise
        line = await self._pool.get_connection()  # type: ignore[no-untyped-call]
        # Writing that little never blocks, and a limit to its time is a task for each command.
        line.socket_timeout = None
        return await self._asked(line, commands)

    async def close(self) -> None:
        """Give the connections back to the pool."""
        while self._idle:
            line, _ = self._idle.pop()
            await self._put_back(line)

    async def _asked(self, line: Any, commands: Sequence[Command]) -> list[Any]:
        try:
            await line.send_packed_command(line.pack_commands(commands), check_health=False)
            async with asyncio.timeout(ANSWER_WITHIN_S):
                replies = [await _reply(line) for _ in commands]
        except BaseException:
            await line.disconnect(nowait=True)
            await self._put_back(line)
            raise
        self._idle.append((line, asyncio.get_running_loop().time()))
        return replies

    async def _put_back(self, line: Any) -> None:
        line.socket_timeout = ANSWER_WITHIN_S
        await self._pool.release(line)


async def _reply(line: Any) -> Any:
    try:
        return await line.read_response(timeout=math.inf)
    except ResponseError as error:
        return error
