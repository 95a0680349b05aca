"""Calls that outlast those who wait for them: they end by their own deadline, and nobody cuts them short.

A client that is cut short in the middle of an answer closes the connection, and makes the next caller wait
for a new one; some drivers complain in the log besides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Calls:
    """Calls that are running. For one event loop."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin `work`; how it ends is lost unless somebody waits for it."""
        task = asyncio.get_running_loop().create_task(work, name="outlasting call")
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    async def outlast(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what `work` returns, or raise what it raises. It goes on when the caller leaves."""
        return await asyncio.shield(self.start(work))

    async def close(self, within_s: float) -> None:
        """Wait for those that are running, as long as `within_s` allows, and end the others."""
        if self._running:
            await asyncio.wait(self._running, timeout=within_s)
        left = list(self._running)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # asyncio complains of errors that nobody looks at
