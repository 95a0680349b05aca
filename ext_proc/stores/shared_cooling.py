"""Which scopes cool, shared by the processors of one Redis: told when it begins, heard by a subscription.

A scope is a Backend, or one key of the callers' own (see `providers/scopes.py`).
A call never asks Redis for it. Those that cool stand in one sorted set, by when they may be asked again, for
whoever comes later or has lost its connection: to look for keys would be to look at all that the cache holds.
Without Redis each processor finds out by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError
from structlog.typing import FilteringBoundLogger

from ext_proc.answers import Clocks
from ext_proc.stores.neighbour import CLOSE_WITHIN_S
from ext_proc.stores.trips import Order, Script, Trips

COOLING: Final = "outrigger:cooling"
CHANNEL: Final = "outrigger:cooling"
COOL: Final = Script("cool.lua")
QUIET_S: Final = 10.0
"""After so long without a word the connection is tried."""
AGAIN_S: Final = 1.0
"""How long to wait before the next connection."""
AT_MOST: Final = 1000
"""How many scopes are looked at in the beginning."""


class RedisCooling:
    """Tells the other processors of one Redis, and hears from them. For one event loop.

    Args:
        client: made by `stores.redis.connect`; whoever made it closes it, after this.
        clocks: the time of day and this process's own, now.
        log: where trouble is told, once when it begins and once when it is over.
        owner: a name that no other processor has, without spaces.
    """

    def __init__(
        self, client: Redis, clocks: Callable[[], Clocks], log: FilteringBoundLogger, owner: str
    ) -> None:
        self._client = client
        self._owner = owner
        self._trips = Trips(
            client,
            lambda: clocks().own,
            log,
            opens="Redis does not answer; each processor finds out by itself which providers cool",
            closes="Redis is back; processors tell each other which providers cool",
        )
        self._listening: asyncio.Task[None] | None = None
        self._closing = False

    def tell(self, scope: str, wait_s: float) -> None:
        """Say that `scope` is to be left alone for so long. Never waits, never raises."""
        if not self._trips.is_away():
            milliseconds = max(int(wait_s * 1000), 1)
            self._trips.send(Order(COOL, [COOLING], [scope, milliseconds, CHANNEL, self._owner]))

    def listen(self, heard: Callable[[str, float], None]) -> None:
        """Have `heard` told what others say, from now on."""
        self._listening = asyncio.get_running_loop().create_task(self._listen(heard), name="cooling")

    async def close(self) -> None:
        """Hear no more, and wait a moment for what is on its way."""
        self._closing = True
        if self._listening is not None:
            self._listening.cancel()
            # A client may take a cancellation for a connection that broke.
            await asyncio.wait((self._listening,), timeout=CLOSE_WITHIN_S)
        await self._trips.close()

    async def _listen(self, heard: Callable[[str, float], None]) -> None:
        while not self._closing:
            # Trouble with Redis is told by those whose calls it concerns.
            with contextlib.suppress(RedisError, OSError, TimeoutError):
                await self._subscribed(heard)
            await asyncio.sleep(AGAIN_S)

    async def _subscribed(self, heard: Callable[[str, float], None]) -> None:
        async with self._client.pubsub() as subscription:
            await subscription.subscribe(CHANNEL)
            # In this order: what begins to cool in between is heard.
            await self._look(heard)
            tried = False
            while not self._closing:
                message = await subscription.get_message(timeout=QUIET_S)
                if message is None:
                    if tried:
                        raise TimeoutError
                    tried = True
                    await subscription.ping()
                    continue
                tried = False
                if message["type"] == "message":
                    self._hear(message["data"], heard)

    async def _look(self, heard: Callable[[str, float], None]) -> None:
        # Somebody may have put something else there.
        with contextlib.suppress(ResponseError):
            cooling: Any = await self._client.zrevrange(COOLING, 0, AT_MOST - 1, withscores=True)
            seconds, microseconds = await self._client.time()
            for name, until_ms in cooling:
                left_s = until_ms / 1000 - seconds - microseconds / 1e6
                if left_s > 0:
                    heard(name.decode("utf-8", "replace"), left_s)

    def _hear(self, data: Any, heard: Callable[[str, float], None]) -> None:
        words = data.decode("utf-8", "replace").split(" ", 2) if isinstance(data, bytes) else ()
        # Anybody may have written it.
        if len(words) == 3 and words[0] != self._owner and words[1].isdecimal() and len(words[1]) < 12:
            heard(words[2], int(words[1]) / 1000)
