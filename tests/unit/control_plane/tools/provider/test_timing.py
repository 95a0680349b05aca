"""Time is linear in tokens, with a knee where one is set."""

from __future__ import annotations

import asyncio
import time

import pytest

from control_plane.tools.provider.settings import ProviderSettings
from control_plane.tools.provider.timing import SystemClock, decode_step_s, prefill_s

KNEE = ProviderSettings(
    prefill_ms_per_token=0.2, prefill_knee_tokens=1000, prefill_ms_per_token_past_knee=0.8
)


@pytest.mark.parametrize(
    ("tokens", "seconds"), [(0, 0), (500, 0.1), (1000, 0.2), (1001, 0.2008), (2000, 1.0)]
)
def test_knee(tokens: int, seconds: float) -> None:
    """The slope changes at the knee and nowhere else (the field report saw it near 1,000 tokens)."""
    assert prefill_s(tokens, KNEE) == pytest.approx(seconds)


def test_no_knee() -> None:
    """Without a knee one slope holds throughout."""
    assert prefill_s(4000, ProviderSettings(prefill_ms_per_token=0.5)) == pytest.approx(2)


@pytest.mark.parametrize(("side_by_side", "milliseconds"), [(1, 12.5), (2, 13.125), (20, 24.375)])
def test_decode(side_by_side: int, milliseconds: float) -> None:
    """Several answers decoded together cost more than one, and much less than one after another."""
    settings = ProviderSettings(decode_ms_per_token=12.5, batch_slowdown=0.05)
    assert decode_step_s(side_by_side, settings) * 1000 == pytest.approx(milliseconds)


@pytest.mark.parametrize(("tokens", "milliseconds"), [(42, 520), (78, 980)])
def test_reported_times(tokens: int, milliseconds: float) -> None:
    """12.5 ms a token gives the field report's 520 ms for 42 tokens and 980 ms for 78, within 2 %."""
    step = decode_step_s(1, ProviderSettings(decode_ms_per_token=12.5))
    assert step * tokens * 1000 == pytest.approx(milliseconds, rel=0.02)


async def test_system_clock_waits_for_the_moment() -> None:
    """A moment in the past costs no time; one ahead is waited for."""
    clock = SystemClock()
    async with asyncio.timeout(2):
        await clock.sleep_until(clock.monotonic() - 100)
        moment = clock.monotonic() + 0.01
        await clock.sleep_until(moment)
    assert clock.monotonic() >= moment
    assert abs(clock.wall() - time.time()) < 5
