"""Sessions in Redis: shared by all processors and sidecars, one script and one round trip a call.

A session is one hash with a time to live, set in the same step as what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from redis.asyncio import Redis
from structlog.typing import FilteringBoundLogger

from ext_proc.answers import Clocks
from ext_proc.sessions.records import ERASED_NUMBERS, MAX_BYTES, STEP, Opened, Record, tenths
from ext_proc.stores.neighbour import Away
from ext_proc.stores.trips import Order, Script, Trips

PREFIX: Final = "outrigger:session:"
SESSION: Final = Script("session.lua")
ERASE: Final = Script("erase_session.lua")


class RedisSessions:
    """The `Far` store that is a Redis. For one event loop.

    Args:
        client: made by `stores.redis.connect`; whoever made it closes it, after this.
        clocks: the time of day and this process's own, now.
        log: where trouble is told, once when it begins and once when it is over.
    """

    def __init__(self, client: Redis, clocks: Callable[[], Clocks], log: FilteringBoundLogger) -> None:
        self._clocks = clocks
        self._trips = Trips(
            client,
            lambda: clocks().own,
            log,
            opens="Redis does not answer; each processor goes on with the sessions that it remembers",
            closes="Redis is back; processors share sessions",
        )

    async def renew(
        self, key: bytes, records: Sequence[Record], *, ttl_ms: int, keep: int, draw: bool
    ) -> Opened:
        """Keep `records` too, and of all the last `keep`; return them and, with `draw`, the next number.

        Raises:
            Away: Redis does not answer in time, or has something else under this name.
        """
        at = tenths(self._clocks().wall) if draw else -1
        arguments: list[str | int | bytes] = [ttl_ms, keep, MAX_BYTES, STEP, at]
        for record in records:
            arguments += record
        last, *held = await self._run(Order(SESSION, [_name(key)], arguments))
        pairs = zip(held[::2], held[1::2], strict=True)
        return Opened(int(last), tuple(sorted((int(number), record) for number, record in pairs)))

    async def erase(self, key: bytes, *, ttl_ms: int) -> None:
        """Forget the session, and for `ttl_ms` turns of it that are under way. Raises Away."""
        now = tenths(self._clocks().wall) * STEP
        await self._run(Order(ERASE, [_name(key)], [ttl_ms, ERASED_NUMBERS, now]))

    async def close(self) -> None:
        """Wait a moment for what is on its way."""
        await self._trips.close()

    async def _run(self, order: Order) -> list[bytes]:
        if self._trips.is_away():
            raise Away
        answer: list[bytes] = await self._trips.send(order).answer
        return answer


def _name(key: bytes) -> str:
    return f"{PREFIX}{key.hex()}"
