"""Calls that wait for one Backend, in fair order: by the priority of their Tier, then as they came.

Only the first of the line asks whether it may go; the others wait for it. For one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from bisect import insort
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from ext_proc.providers.quota import Ask, Draft

LONGEST_S: Final = 600.0
"""How long one call waits for a place at the very most."""
SHORTEST_S: Final = 0.001
DEFERENCE: Final = 0.25
DEFERENCE_S: Final = 0.005
"""So much longer than it has to waits who has just come, and no longer than that: of those who are the first
of their processors' lines, who has waited longest asks first."""
SHARE_OF_PATIENCE: Final = 0.8
"""Calls keep a distance in which all that wait get their turn within so much of their patience."""


class Obstacle(StrEnum):
    """Why calls wait."""

    COOLING = "cooling"
    QUOTA = "quota"
    PLACES = "places"


class Blocked(NamedTuple):
    """When to ask again, and why not now. `hopeful`: it may well be sooner, so that waiting is worth it.

    `alone`: what is in the way is the call's own key, and nothing to those behind it in line.
    """

    wait_s: float
    obstacle: Obstacle
    hopeful: bool = False
    alone: bool = False


class Went(NamedTuple):
    """The call may go; `draft` is what it has drawn from the quota, if there is one."""

    draft: Draft | None


Outcome = Went | Blocked


@dataclass(slots=True, eq=False)
class Waiter:
    """One call in the line. `until` is when its patience ends, by the loop's clock.

    With `elsewhere`, it has a better place to go to as soon as the Backend cools.
    """

    order: tuple[int, int]
    ask: Ask
    until: float
    patience_s: float
    elsewhere: bool
    outcome: asyncio.Future[Outcome] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Line:
    """The line before one Backend.

    Args:
        try_to_go: asked for the first of the line, with the longest distance to the call before it that all
            in the line bear (seconds).
        take_back: gives back what was drawn for one that has left meanwhile.
        emptied: called when nobody waits any more.
    """

    def __init__(
        self,
        try_to_go: Callable[[Ask, float], Awaitable[Outcome]],
        take_back: Callable[[Draft], None],
        emptied: Callable[[], None],
    ) -> None:
        self._try_to_go = try_to_go
        self._take_back = take_back
        self._emptied = emptied
        self._waiters: list[Waiter] = []
        self._changed = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._came = 0
        self._wakes_at = 0.0
        # Nobody's patience ends before, as long as the same kind of obstacle is in the way.
        self._soonest = math.inf
        self._for_places = False
        self._some_elsewhere = False

    def __len__(self) -> int:
        return len(self._waiters)

    async def wait(self, ask: Ask, priority: int, patience_s: float, *, elsewhere: bool = False) -> Outcome:
        """Wait for the turn of a call.

        Returns that it may go; else what was in the way when its patience ended, or when the Backend began to
        cool and it can go `elsewhere`; at once, if that is in the way of it `alone`.
        """
        now = asyncio.get_running_loop().time()
        self._came += 1
        waiter = Waiter((-priority, self._came), ask, now + patience_s, patience_s, elsewhere)
        self._soonest = min(self._soonest, waiter.until)
        self._some_elsewhere = self._some_elsewhere or elsewhere
        insort(self._waiters, waiter, key=lambda one: one.order)
        if self._waiters[0] is waiter or waiter.until < self._wakes_at:
            self._changed.set()
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run(), name="line")
        try:
            return await waiter.outcome
        except asyncio.CancelledError:
            if waiter in self._waiters:
                if self._waiters[0] is waiter:
                    self._changed.set()
                self._waiters.remove(waiter)
            if waiter.outcome.done() and not waiter.outcome.cancelled():
                self._undo(waiter.outcome.result())
            raise

    def look_again(self) -> None:
        """Let the first of the line ask now: something has changed."""
        self._changed.set()

    async def close(self) -> None:
        """Let nobody wait any more."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiters:
                self._changed.clear()
                first = self._waiters[0]
                bears_s = min(
                    first.patience_s * SHARE_OF_PATIENCE / len(self._waiters), first.until - loop.time()
                )
                outcome = await self._try_to_go(first.ask, bears_s)
                if isinstance(outcome, Went) or outcome.alone:
                    self._goes(first, outcome)
                    continue
                now = loop.time()
                self._give_up(outcome, now)
                if self._waiters:
                    first = self._waiters[0]
                    left = max(first.until - now, 0.0) / first.patience_s if first.patience_s else 0.0
                    wait_s = outcome.wait_s + min(outcome.wait_s * DEFERENCE, DEFERENCE_S) * left
                    self._wakes_at = min(now + max(wait_s, SHORTEST_S), self._soonest)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout_at(self._wakes_at):
                            await self._changed.wait()
        except Exception as error:
            # Whoever waits fails as if it had asked by itself.
            for waiter in self._waiters:
                if not waiter.outcome.done():
                    waiter.outcome.set_exception(error)
        finally:
            self._running = None
            for waiter in self._waiters:
                waiter.outcome.cancel()
            self._waiters.clear()
            self._emptied()

    def _goes(self, waiter: Waiter, outcome: Outcome) -> None:
        if waiter in self._waiters:  # it may have left meanwhile
            self._waiters.remove(waiter)
        if waiter.outcome.done():
            self._undo(outcome)
        else:
            waiter.outcome.set_result(outcome)

    def _undo(self, outcome: Outcome) -> None:
        if isinstance(outcome, Went) and outcome.draft is not None:
            self._take_back(outcome.draft)

    def _give_up(self, blocked: Blocked, now: float) -> None:
        """Tell all whose patience ends before it could be their turn, or who need not wait."""
        turn_at = now if blocked.hopeful else now + blocked.wait_s
        moves = self._some_elsewhere and blocked.obstacle is Obstacle.COOLING
        for_places = blocked.obstacle is Obstacle.PLACES
        if self._soonest > turn_at and not moves and for_places is self._for_places:
            return
        self._for_places = for_places
        staying: list[Waiter] = []
        for waiter in self._waiters:
            if (moves and waiter.elsewhere) or self._ends(waiter, blocked) <= turn_at:
                if not waiter.outcome.done():
                    waiter.outcome.set_result(blocked)
            else:
                staying.append(waiter)
        self._waiters = staying
        self._soonest = min((self._ends(one, blocked) for one in staying), default=math.inf)
        self._some_elsewhere = any(one.elsewhere for one in staying)

    def _ends(self, waiter: Waiter, blocked: Blocked) -> float:
        # A place comes free when a call ends; how long that takes is no matter of a provider's quota.
        if blocked.obstacle is Obstacle.PLACES:
            return waiter.until - waiter.patience_s + LONGEST_S
        return waiter.until
