"""Scripts run in Redis, many to a round trip: what comes while a trip is under way goes with the next one.

So a burst of thousands is some trips, and a call that comes alone waits for nobody. A server that is silent
is left alone for a while; what this process itself is late by is not held against it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import NoScriptError
from structlog.typing import FilteringBoundLogger

from ext_proc.stores.lines import Lines
from ext_proc.stores.neighbour import BUSY_S, CONNECT_WITHIN_S, Away, Neighbour
from ext_proc.stores.outlasting import Calls

SILENT_S: Final = 0.1
"""A server that says nothing for so long, while this process listens, is away."""
LISTEN_S: Final = 0.01
PATIENCE: Final = 100
"""How often it is listened, however late this process itself is."""
TOGETHER: Final = 16
LINGER_S: Final = 0.003
TRIPS_AT_ONCE: Final = 2
CLOSE_WITHIN_S: Final = 0.25
_LUA: Final = Path(__file__).parent / "lua"


class Script:
    """A script of one or several files, by the digest that Redis knows it by once it is loaded."""

    def __init__(self, *names: str) -> None:
        self.text = "\n".join((_LUA / name).read_text(encoding="utf-8") for name in names)
        # How Redis names scripts; nothing is kept secret by it.
        self.digest = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


@dataclass(slots=True, eq=False)
class Order:
    """One script to run with keys and arguments.

    `answer` is what `hear` makes of the reply at the moment that it comes, or raises Away; `late` is given a
    reply that comes when nobody waits any more.
    """

    script: Script
    keys: Sequence[str]
    arguments: Sequence[str | int | bytes]
    answer: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    hear: Callable[[Any], Any] | None = None
    late: Callable[[Any], None] | None = None

    def answered(self, reply: Any) -> None:
        """Pass the reply on."""
        if isinstance(reply, Exception):
            self.failed()
        elif not self.answer.done():
            self.answer.set_result(reply if self.hear is None else self.hear(reply))
        elif self.late is not None:
            self.late(reply)

    def failed(self) -> None:
        """Say that there is no reply; no effect once there is one."""
        if not self.answer.done():
            self.answer.set_exception(Away())
            self.answer.exception()  # whoever does not wait for it need not look


@dataclass(slots=True, eq=False)
class _Trip:
    """Orders that go together, and how long it has been listened for their replies."""

    orders: Sequence[Order]
    listened: float
    silent_s: float = 0.0
    patience: int = PATIENCE
    watch: asyncio.TimerHandle | None = None
    over: bool = False


class Trips:
    """Takes orders to Redis. For one event loop.

    Args:
        client: made by `stores.redis.connect`; whoever made it closes it, after this.
        clock: seconds, of any beginning.
        log: where trouble is told, once when it begins and once when it is over.
        opens: what is said when it begins.
        closes: what is said when it is over.
    """

    def __init__(
        self,
        client: Redis,
        clock: Callable[[], float],
        log: FilteringBoundLogger,
        *,
        opens: str,
        closes: str,
    ) -> None:
        self._lines = Lines(client)
        self._neighbour = Neighbour(
            client.ping, within_s=SILENT_S, at_once=1, clock=clock, log=log, opens=opens, closes=closes
        )
        self._calls = Calls()
        self._orders: deque[Order] = deque()
        self._under_way = 0
        self._timer: asyncio.TimerHandle | None = None
        self._connecting = TRIPS_AT_ONCE

    def is_away(self) -> bool:
        """Say whether Redis is left alone now."""
        return self._neighbour.is_away()

    def send(self, order: Order, *, hurry: bool = True) -> Order:
        """Let `order` go with the next trip; return it. Without hurry, it waits a moment for company."""
        self._orders.append(order)
        if hurry:
            self._depart()
        elif self._timer is None and not self._under_way:
            self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._depart)
        return order

    async def close(self) -> None:
        """Wait a moment for what is on its way."""
        if self._orders:
            self._depart()
        await self._calls.close(CLOSE_WITHIN_S)
        for order in self._orders:
            order.failed()
        await self._lines.close()
        await self._neighbour.close()

    def _depart(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._orders and self._under_way < TRIPS_AT_ONCE:
            together = [self._orders.popleft() for _ in range(min(TOGETHER, len(self._orders)))]
            if self._neighbour.is_away():
                for order in together:
                    order.failed()
                continue
            trip = _Trip(together, asyncio.get_running_loop().time())
            self._under_way += 1
            self._watch(trip)
            self._calls.start(self._travel(trip))

    async def _travel(self, trip: _Trip) -> None:
        """Run the trip's orders. One that is late goes on to its end."""
        try:
            await self._run(trip.orders)
            self._connecting = max(self._connecting - 1, 0)
        except Exception as error:
            # Whatever the client makes of a broken server: nobody's request fails by it.
            self._neighbour.failed(error)
        finally:
            self._over(trip)

    def _watch(self, trip: _Trip) -> None:
        trip.watch = asyncio.get_running_loop().call_later(LISTEN_S, self._listen, trip)

    def _listen(self, trip: _Trip) -> None:
        """Give a trip up that has been silent for too long, while this process listened."""
        now = asyncio.get_running_loop().time()
        if now - trip.listened < LISTEN_S + BUSY_S:
            trip.silent_s += LISTEN_S
        trip.listened = now
        trip.patience -= 1
        if trip.patience and trip.silent_s < (CONNECT_WITHIN_S if self._connecting else SILENT_S):
            self._watch(trip)
            return
        self._neighbour.failed(TimeoutError())
        self._over(trip)

    def _over(self, trip: _Trip) -> None:
        """Let the next ones go; whoever has no reply gets none."""
        if trip.over:
            return
        trip.over = True
        if trip.watch is not None:
            trip.watch.cancel()
        self._under_way -= 1
        for order in trip.orders:
            order.failed()
        if self._orders:
            self._depart()

    async def _run(self, orders: Sequence[Order]) -> None:
        replies = await self._replies(orders)
        unknown = [
            order for order, reply in zip(orders, replies, strict=True) if isinstance(reply, NoScriptError)
        ]
        if unknown:
            # Redis was restarted, or its scripts were flushed: sent in full they are run, and known again.
            again = dict(zip(unknown, await self._replies(unknown, in_full=True), strict=True))
            replies = [again.get(order, reply) for order, reply in zip(orders, replies, strict=True)]
        for order, reply in zip(orders, replies, strict=True):
            order.answered(reply)
        for reply in replies:
            # Somebody put something else under our name: that says nothing of Redis.
            if isinstance(reply, Exception) and "WRONGTYPE" not in str(reply):
                raise reply

    async def _replies(self, orders: Sequence[Order], *, in_full: bool = False) -> list[Any]:
        return await self._lines.replies([_command(order, in_full=in_full) for order in orders])


def _command(order: Order, *, in_full: bool) -> Sequence[str | int | bytes]:
    begins = ("EVAL", order.script.text) if in_full else ("EVALSHA", order.script.digest)
    return (*begins, len(order.keys), *order.keys, *order.arguments)
