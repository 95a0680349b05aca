"""Work beside the servers: what fails begins anew, and is told."""

from __future__ import annotations

import asyncio

import pytest
import structlog
from structlog.testing import capture_logs

from control_plane.background import lasting


class Part:
    """Fails so often, then works until it is cancelled."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.works = asyncio.Event()

    async def run(self) -> None:
        """Work."""
        if self.failures:
            self.failures -= 1
            raise RuntimeError("nobody foresaw this")
        self.works.set()
        await asyncio.Event().wait()


async def test_what_fails_begins_anew_and_is_told() -> None:
    """Each time, by its name; cancelled, it ends."""
    part = Part(failures=2)
    with capture_logs() as logs:
        task = asyncio.create_task(lasting(part.run, structlog.get_logger(), 0.0))
        await asyncio.wait_for(part.works.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [(line["log_level"], line["part"], line["error"]) for line in logs] == [
        ("error", "Part.run", "RuntimeError"),
        ("error", "Part.run", "RuntimeError"),
    ]


async def test_what_is_done_is_done() -> None:
    """It is not begun anew."""
    times = []

    async def once() -> None:
        times.append(1)

    await asyncio.wait_for(lasting(once, structlog.get_logger()), 5)
    assert times == [1]
