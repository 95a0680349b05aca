"""Tells webhooks what is due, without anybody waiting for it. Knows no HTTP and no database."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Protocol

from control_plane.registry.bulletins import Taken
from control_plane.registry.errors import RegistryError
from control_plane.registry.ledger import Log
from control_plane.registry.ports import Bulletin
from control_plane.resources.kinds.release import Webhook

AT_ONCE: Final = 8
"""How many are told at the same time, each to another webhook."""
LOOK_AT_LEAST_EVERY_S: Final = 30.0
FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 300.0
GIVEN_UP_AFTER: Final = timedelta(hours=24)


class Result(StrEnum):
    """What came of a bulletin: told, not taken this time, or never to be told."""

    DELIVERED = "delivered"
    FAILED = "failed"
    GIVEN_UP = "given_up"


class NotTakenError(Exception):
    """The webhook did not take it; the message says why in a few words, without its URL.

    `for_good`: it asks for no more.
    """

    def __init__(self, reason: str, *, for_good: bool = False) -> None:
        super().__init__(reason)
        self.for_good = for_good


class Outbox(Protocol):
    """What is to be told."""

    async def take(self, limit: int) -> Taken:
        """Take up to `limit` bulletins that are due."""

    async def done(self, bulletin: Bulletin) -> None:
        """Forget one."""

    async def put_off(self, bulletin: Bulletin, seconds: float) -> None:
        """Have another attempt made later."""


Send = Callable[[Bulletin, Webhook], Awaitable[None]]
"""Makes one attempt, within less than the lease. Raises `NotTakenError`."""


class Courier:
    """Takes and tells until it is stopped; `wake` has it look at once."""

    def __init__(
        self,
        outbox: Outbox,
        send: Send,
        *,
        now: Callable[[], datetime],
        log: Log,
        count: Callable[[Result], None] = lambda _: None,
    ) -> None:
        self._outbox = outbox
        self._send = send
        self._now = now
        self._log = log
        self._count = count
        self._woken = asyncio.Event()
        self._telling: set[asyncio.Task[None]] = set()

    def wake(self) -> None:
        """Look at once: there may be something new."""
        self._woken.set()

    async def run(self) -> None:
        """Tell until cancelled. What is being told then is told again by whoever takes it next."""
        try:
            while True:
                wait_s = await self._take()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._woken.wait()
                self._woken.clear()
        finally:
            for task in self._telling:
                task.cancel()
            if self._telling:
                await asyncio.wait(self._telling)

    async def _take(self) -> float:
        """Begin to tell what is due; returns after how many seconds to look again."""
        try:
            taken = await self._outbox.take(AT_ONCE - len(self._telling))
        except RegistryError:
            return FIRST_WAIT_S  # the registry tells of a database that is away
        for bulletin in taken.bulletins:
            task = asyncio.create_task(self._tell(bulletin), name="bulletin")
            self._telling.add(task)
            task.add_done_callback(self._told)
        if len(self._telling) >= AT_ONCE or taken.more_at is None:
            return LOOK_AT_LEAST_EVERY_S
        left_s = (taken.more_at - self._now()).total_seconds()
        return min(max(left_s, 0.05), LOOK_AT_LEAST_EVERY_S)

    def _told(self, task: asyncio.Task[None]) -> None:
        self._telling.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("a webhook was not told", error=str(error))
        self.wake()

    async def _tell(self, bulletin: Bulletin) -> None:
        try:
            webhook = Webhook.model_validate_json(bulletin.target)
        except ValueError:
            refused = NotTakenError("this build does not understand it", for_good=True)
            await self._not_taken(bulletin, refused)
            return
        try:
            await self._send(bulletin, webhook)
        except NotTakenError as refused:
            await self._not_taken(bulletin, refused)
            return
        self._count(Result.DELIVERED)
        await self._outbox.done(bulletin)

    async def _not_taken(self, bulletin: Bulletin, refused: NotTakenError) -> None:
        wait_s = backoff_s(bulletin.attempts)
        at_end = self._now() + timedelta(seconds=wait_s) >= bulletin.made_at + GIVEN_UP_AFTER
        given_up = refused.for_good or at_end
        self._count(Result.GIVEN_UP if given_up else Result.FAILED)
        tell = self._log.error if given_up else self._log.warning
        event = "a webhook is not told" if given_up else "a webhook did not take it, it is tried again"
        tell(event, release=bulletin.release, reason=str(refused), attempts=bulletin.attempts + 1)
        if given_up:
            await self._outbox.done(bulletin)
        else:
            await self._outbox.put_off(bulletin, wait_s)


def backoff_s(attempts: int) -> float:
    """Return how long to wait after a failed attempt, when `attempts` were made before it."""
    return float(min(FIRST_WAIT_S * 2 ** min(attempts, 16), LONGEST_WAIT_S))
