"""What the fleet finds out about a revision, written down where every replica sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from structlog.typing import FilteringBoundLogger

from control_plane.registry.errors import StorageFullError, StoreUnavailableError

TRY_AGAIN_S: Final = 1.0


class Halting:
    """Writes halted revisions down, however long the database takes.

    Args:
        halt: the registry's.
        log: where a halt that cannot be written down is told.
        on_halt: counts them.
        try_again_s: how long to wait for a database that does not answer.
    """

    def __init__(
        self,
        halt: Callable[[int, str], Awaitable[None]],
        log: FilteringBoundLogger,
        *,
        on_halt: Callable[[], None] = lambda: None,
        try_again_s: float = TRY_AGAIN_S,
    ) -> None:
        self._halt = halt
        self._log = log
        self._on_halt = on_halt
        self._try_again_s = try_again_s
        self._tasks: set[asyncio.Task[None]] = set()

    def halted(self, revision: int, reason: str) -> None:
        """Write down, in the background, that `revision` is out of force and why."""
        self._on_halt()
        task = asyncio.get_running_loop().create_task(self._write(revision, reason))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Give up what is not written yet; a start after this pushes it again, and it is refused again."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _write(self, revision: int, reason: str) -> None:
        while True:
            try:
                await self._halt(revision, reason)
            except (StoreUnavailableError, StorageFullError):
                await asyncio.sleep(self._try_again_s)
            except Exception as error:
                self._log.error("a halt cannot be written down", revision=revision, error=error)
                return
            else:
                return
