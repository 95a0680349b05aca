"""Whose turn it is to wake a provider, among all processors of one Redis: a key for each Backend.

It is there as long as the provider needs no waking: since somebody called it, or woke it. Whoever finds it
gone and puts it there wakes the provider. Without Redis each processor does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from redis.asyncio import Redis
from structlog.typing import FilteringBoundLogger

from ext_proc.answers import Clocks
from ext_proc.stores.neighbour import Away, Neighbour

PREFIX: Final = "outrigger:warm:"
WITHIN_S: Final = 0.25
TELL_EVERY: Final = 4
"""So often within the time that it counts a call is told."""


class RedisTurns:
    """The turns of one processor. For one event loop.

    Args:
        client: made by `stores.redis.connect`; whoever made it closes it, after this.
        clocks: the time of day and this process's own, now.
        log: where trouble is told, once when it begins and once when it is over.
    """

    def __init__(self, client: Redis, clocks: Callable[[], Clocks], log: FilteringBoundLogger) -> None:
        self._client = client
        self._clocks = clocks
        self._neighbour = Neighbour(
            client.ping,
            within_s=WITHIN_S,
            at_once=2,
            clock=lambda: clocks().own,
            log=log,
            opens="Redis does not answer; each processor wakes providers by itself",
            closes="Redis is back; one processor wakes providers for all",
        )
        self._told: dict[str, float] = {}
        self._telling: set[asyncio.Task[None]] = set()

    async def take(self, backend: str, for_s: float) -> bool:
        """Whether this one is to wake `backend`; nobody else is within `for_s` then."""
        try:
            return bool(
                await self._neighbour.ask(
                    lambda: self._client.set(f"{PREFIX}{backend}", b"", px=_ms(for_s), nx=True)
                )
            )
        except Away:
            return True

    def used(self, backend: str, for_s: float) -> None:
        """Say that `backend` was called, so that nobody needs to wake it within `for_s`; now and then."""
        now = self._clocks().own
        if now - self._told.get(backend, float("-inf")) < for_s / TELL_EVERY:
            return
        self._told[backend] = now
        task = asyncio.get_running_loop().create_task(self._tell(backend, for_s), name="provider in use")
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def close(self) -> None:
        """Wait a moment for what is on its way."""
        await asyncio.gather(*self._telling)
        await self._neighbour.close()

    async def _tell(self, backend: str, for_s: float) -> None:
        try:
            await self._neighbour.ask(lambda: self._client.set(f"{PREFIX}{backend}", b"", px=_ms(for_s)))
        except Away:
            self._told.pop(backend, None)


def _ms(seconds: float) -> int:
    return max(int(seconds * 1000), 1)
