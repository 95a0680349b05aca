"""Halts are written down, whatever the database does."""

from __future__ import annotations

import asyncio

import pytest
import structlog

from control_plane.halting import Halting
from control_plane.registry.errors import NotFoundError, StoreUnavailableError


class Book:
    """A registry that fails as often as it is told to."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.halted: list[tuple[int, str]] = []
        self.asked = asyncio.Event()

    async def halt(self, revision: int, reason: str) -> None:
        """Write it down, or fail."""
        self.asked.set()
        if self.failures:
            raise self.failures.pop(0)
        self.halted.append((revision, reason))


async def settled(halting: Halting, book: Book) -> None:
    """Wait until everything has been written."""
    async with asyncio.timeout(5):
        while not book.halted:
            book.asked.clear()
            await book.asked.wait()
            await asyncio.sleep(0)
    await halting.close()


async def test_a_halt_is_counted_and_written() -> None:
    """Once each."""
    book, counted = Book(), []
    halting = Halting(book.halt, structlog.get_logger(), on_halt=lambda: counted.append(1))
    halting.halted(7, "Envoy says no")
    await settled(halting, book)
    assert book.halted == [(7, "Envoy says no")]
    assert counted == [1]


async def test_a_database_that_is_gone_is_asked_again() -> None:
    """Until it takes it."""
    book = Book(StoreUnavailableError("gone"), StoreUnavailableError("gone"))
    halting = Halting(book.halt, structlog.get_logger(), try_again_s=0.001)
    halting.halted(7, "no")
    await settled(halting, book)
    assert book.halted == [(7, "no")]


@pytest.mark.parametrize("failure", [NotFoundError("revision 7"), RuntimeError("odd")])
async def test_what_cannot_be_written_is_told_and_left(failure: Exception) -> None:
    """One line, no endless loop, nothing raised into the fleet."""
    book = Book(failure)
    halting = Halting(book.halt, structlog.get_logger(), try_again_s=0.001)
    halting.halted(7, "no")
    await asyncio.wait_for(book.asked.wait(), 5)
    await halting.close()
    assert not book.halted
