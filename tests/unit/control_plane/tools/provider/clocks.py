"""A clock that jumps to whatever moment is waited for, so that minutes of simulated time take none."""

from __future__ import annotations

import asyncio


class JumpingClock:
    """Starts at 1,000 s; `sleep_until` moves it forward at once and lets other tasks run."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """Return the simulated time."""
        return self.now

    def wall(self) -> float:
        """Return the simulated time; its epoch does not matter here."""
        return self.now

    async def sleep_until(self, moment: float) -> None:
        """Jump to `moment`."""
        self.now = max(self.now, moment)
        await asyncio.sleep(0)
