"""What is written later: order, bounds, batches."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from ext_proc.stores.write_behind import BATCH_BYTES, WriteBehind


@dataclass
class Paper:
    """Where it is written, as soon as it is let."""

    batches: list[list[int]] = field(default_factory=list)
    may_write: asyncio.Event = field(default_factory=asyncio.Event)
    at_once: int = 0
    most_at_once: int = 0

    async def write(self, items: Sequence[int]) -> None:
        """Write `items`."""
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self.may_write.wait()
        self.at_once -= 1
        self.batches.append(list(items))


async def test_what_waits_is_written_together() -> None:
    """In its order, up to the size of a batch."""
    paper = Paper()
    behind = WriteBehind(paper.write, writers=1, batch=3)
    paper.may_write.set()
    assert all(behind.offer(number, 1) for number in range(7))
    behind.start()
    await behind.close(1)
    assert paper.batches == [[0, 1, 2], [3, 4, 5], [6]]


async def test_large_items_are_not_written_together() -> None:
    """A batch ends with the one that makes it large."""
    paper = Paper()
    behind = WriteBehind(paper.write, writers=1, batch=10)
    paper.may_write.set()
    for number in range(4):
        behind.offer(number, BATCH_BYTES // 2)
    behind.start()
    await behind.close(1)
    assert paper.batches == [[0, 1], [2, 3]]


async def test_beyond_the_bounds_nothing_waits() -> None:
    """Neither by number nor by bytes; what is being written counts until it is."""
    paper = Paper()
    behind = WriteBehind(paper.write, writers=1, max_items=2, max_bytes=100)
    assert [behind.offer(number, 10) for number in range(3)] == [True, True, False]
    behind.start()
    await asyncio.sleep(0)
    assert [behind.offer(3, 81), behind.offer(4, 80)] == [False, True]
    paper.may_write.set()
    await behind.close(1)
    assert paper.batches == [[0], [1], [4]]
    assert behind.offer(5, 100)


async def test_several_write_at_the_same_time() -> None:
    """As many as there are writers."""
    paper = Paper()
    behind = WriteBehind(paper.write, writers=3)
    for number in range(10):
        behind.offer(number, 1)
    behind.start()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert paper.most_at_once == 3
    paper.may_write.set()
    await behind.close(1)
    assert len(paper.batches) == 10


async def test_closing_takes_no_longer_than_it_may() -> None:
    """What cannot be written by then is lost."""
    paper = Paper()
    behind = WriteBehind(paper.write)
    behind.offer(1, 1)
    behind.start()
    async with asyncio.timeout(1):
        await behind.close(0.01)
    assert paper.batches == []


async def test_one_that_was_never_started_closes_at_once() -> None:
    """There is nobody to wait for."""
    behind = WriteBehind(Paper().write)
    behind.offer(1, 1)
    async with asyncio.timeout(1):
        await behind.close(60)
