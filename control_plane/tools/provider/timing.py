"""How long a call takes (pure), and the clock that everything here is timed by.

Prefill and decode are linear in tokens, because that is how model servers behave; the field reports'
"exponential" growth is a clock-driven impression. A knee in prefill is one changed slope, not a curve.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from control_plane.tools.provider.settings import ProviderSettings


class Clock(Protocol):
    """Time as the provider sees it: seconds."""

    def monotonic(self) -> float:
        """Return a time that only grows."""

    def wall(self) -> float:
        """Return Unix time."""

    async def sleep_until(self, moment: float) -> None:
        """Return once `monotonic()` has reached `moment`."""


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        """Return `time.monotonic()`."""
        return time.monotonic()

    def wall(self) -> float:
        """Return `time.time()`."""
        return time.time()

    async def sleep_until(self, moment: float) -> None:
        """Sleep until `moment`; absolute moments keep the error of many sleeps from adding up."""
        await asyncio.sleep(max(0.0, moment - time.monotonic()))


def prefill_s(prompt_tokens: int, settings: ProviderSettings) -> float:
    """Return the time to read a prompt, in seconds; the knee at 0 tokens means that there is none."""
    knee = settings.prefill_knee_tokens
    before = min(prompt_tokens, knee) if knee else prompt_tokens
    beyond = prompt_tokens - before
    return (before * settings.prefill_ms_per_token + beyond * settings.prefill_ms_per_token_past_knee) / 1000


def decode_step_s(side_by_side: int, settings: ProviderSettings) -> float:
    """Return the time of one token position, in seconds, with `side_by_side` choices decoded together."""
    return settings.decode_ms_per_token * (1 + settings.batch_slowdown * (side_by_side - 1)) / 1000
