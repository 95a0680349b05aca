"""What is written later, so that nobody waits for it: bounded in number and bytes, by several writers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

T = TypeVar("T")

WAITING_WRITES: Final = 1_000
WAITING_BYTES: Final = 64 * 1024 * 1024
BATCH_BYTES: Final = 8 * 1024 * 1024


class WriteBehind(Generic[T]):
    """Items on their way to `write`, which takes those that wait together and must not raise.

    Args:
        write: writes some items, at most `batch` of them and about `BATCH_BYTES`.
        writers: how many write at the same time.
        batch: how many items are written together.
        max_items: how many wait at most.
        max_bytes: how many bytes wait at most, those being written included.
    """

    def __init__(
        self,
        write: Callable[[Sequence[T]], Awaitable[None]],
        *,
        writers: int = 4,
        batch: int = 1,
        max_items: int = WAITING_WRITES,
        max_bytes: int = WAITING_BYTES,
    ) -> None:
        self._write = write
        self._number = writers
        self._batch = batch
        self._max_bytes = max_bytes
        self._waiting: asyncio.Queue[tuple[T, int]] = asyncio.Queue(max_items)
        self._bytes = 0
        self._writers: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to write, on the running loop."""
        loop = asyncio.get_running_loop()
        self._writers = [loop.create_task(self._run(), name="write behind") for _ in range(self._number)]

    async def close(self, within_s: float) -> None:
        """Write what waits, as far as `within_s` allows, and stop."""
        if self._writers:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self._waiting.join()
        for writer in self._writers:
            writer.cancel()
        await asyncio.gather(*self._writers, return_exceptions=True)
        self._writers = []

    def offer(self, item: T, size: int) -> bool:
        """Have `item` of `size` bytes written; False when too much waits already."""
        if self._waiting.full() or self._bytes + size > self._max_bytes:
            return False
        self._bytes += size
        self._waiting.put_nowait((item, size))
        return True

    async def _run(self) -> None:
        while True:
            items, size = self._gather(await self._waiting.get())
            try:
                await self._write(items)
            finally:
                self._bytes -= size
                for _ in items:
                    self._waiting.task_done()

    def _gather(self, first: tuple[T, int]) -> tuple[list[T], int]:
        items, size = [first[0]], first[1]
        while len(items) < self._batch and size < BATCH_BYTES and not self._waiting.empty():
            item, item_bytes = self._waiting.get_nowait()
            items.append(item)
            size += item_bytes
        return items, size
