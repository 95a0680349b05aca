"""Worker slots, the queue before them, and instances that go cold when idle.

With `size` slots each is an instance of its own, so warming up takes as many calls at once as there are
slots. Without a bound one instance serves everything. The warmest free instance is taken first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from control_plane.tools.provider.errors import overloaded
from control_plane.tools.provider.timing import Clock


class Instance:
    """One place where calls run. Times are the clock's monotonic seconds."""

    def __init__(self) -> None:
        self._used_at = float("-inf")
        self._warm_at = float("-inf")
        self._users = 0

    def enter(self, now: float, cold_start_s: float, idle_after_s: float) -> float:
        """Begin a call and return the moment the instance is warm (not later than `now`: it is warm)."""
        if not self._users and now - self._used_at > idle_after_s:
            self._warm_at = now + cold_start_s
        self._users += 1
        return self._warm_at

    def leave(self, now: float) -> None:
        """End a call; the idle time counts from the last one."""
        self._users -= 1
        self._used_at = now


class Slots:
    """At most `size` calls at once (0: any number) and at most `queue` waiting (None: any number)."""

    def __init__(
        self, *, size: int, queue: int | None, cold_start_s: float, idle_after_s: float, clock: Clock
    ) -> None:
        self._shared = None if size else Instance()
        self._free = [Instance() for _ in range(size)]
        self._queue = queue
        self._waiting: deque[asyncio.Future[Instance]] = deque()
        self._cold_start_s = cold_start_s
        self._idle_after_s = idle_after_s
        self._clock = clock

    @property
    def waiting(self) -> int:
        """How many calls wait for a slot."""
        return len(self._waiting)

    @asynccontextmanager
    async def occupy(self) -> AsyncIterator[None]:
        """Hold a warm slot; waits for one and, if it is cold, until it has started.

        Raises:
            ApiError: 503, the slots and the queue are full.
        """
        instance = self._shared or await self._take()
        now = self._clock.monotonic()
        warm_at = instance.enter(now, self._cold_start_s, self._idle_after_s)
        try:
            if warm_at > now:
                await self._clock.sleep_until(warm_at)
            yield
        finally:
            instance.leave(self._clock.monotonic())
            if instance is not self._shared:
                self._give(instance)

    async def _take(self) -> Instance:
        if self._free:
            return self._free.pop()
        if self._queue is not None and len(self._waiting) >= self._queue:
            raise overloaded()
        turn: asyncio.Future[Instance] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give(turn.result())  # the slot came while the caller was going away
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def _give(self, instance: Instance) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(instance)
                return
        self._free.append(instance)
