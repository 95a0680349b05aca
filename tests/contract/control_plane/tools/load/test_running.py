"""Whole runs against the simulated provider, in one process and in several."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from control_plane.tools.load import running
from control_plane.tools.load.calls import Operation
from control_plane.tools.load.generator import Ending
from control_plane.tools.load.mix import PromptMix
from control_plane.tools.load.plan import Bounds, ClosedLoop, OpenLoop, Plan
from control_plane.tools.load.running import WorkerLost, run_load
from control_plane.tools.load.wire import Endpoint
from control_plane.tools.provider import Provider, ProviderSettings, running_provider

MIX = PromptMix(Operation.CHAT, "m", max_tokens=2)


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    """A provider that takes 5 ms a call."""
    async with running_provider(ProviderSettings(rtt_ms=5, log_body_bytes=300)) as started:
        yield started


@pytest.mark.parametrize("processes", [1, 2])
async def test_as_many_calls_as_said_are_made(provider: Provider, processes: int) -> None:
    """By however many generators, each a question of its own; whoever watches is told."""
    plan = Plan(MIX, ClosedLoop(8), Bounds(300, 30.0))
    seen: list[tuple[int, int]] = []
    tally, ending = await run_load(
        plan,
        Endpoint(provider.url),
        asyncio.Event(),
        processes=processes,
        watch=lambda ended, errors: seen.append((ended, errors)),
    )
    assert (tally.good, tally.errors, ending) == (300, 0, Ending.REQUESTS)
    assert tally.latency.count == 300
    assert tally.latency.percentile_ms(50) > 5
    assert provider.observations.requests.total() == 300
    assert len({seen.body for seen in provider.observations.log}) == 300
    assert all(ended <= 300 and errors == 0 for ended, errors in seen)


async def test_an_open_loop_in_two_processes_has_the_rate(provider: Provider) -> None:
    """Together."""
    plan = Plan(MIX, OpenLoop(100.0), Bounds(60, 30.0))
    tally, _ = await run_load(plan, Endpoint(provider.url), asyncio.Event(), processes=2)
    assert tally.good == 60
    assert tally.seconds > 0.5


async def test_a_stop_reaches_every_process(provider: Provider) -> None:
    """What was counted comes back."""
    stop = asyncio.Event()
    plan = Plan(MIX, ClosedLoop(4), Bounds(1_000_000, 60.0))

    async def stop_later() -> None:
        await provider.observations.until(lambda seen: seen.requests.total() >= 20)
        stop.set()

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(stop_later())
        tally, ending = await run_load(plan, Endpoint(provider.url), stop, processes=2)
    assert ending is Ending.INTERRUPTED
    assert tally.good >= 10


async def test_a_process_that_dies_is_told(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures without its part would be wrong."""
    monkeypatch.setattr(running, "WORKER", "control_plane.tools.load.calls")
    with pytest.raises(WorkerLost, match="--processes"):
        await run_load(Plan(MIX, ClosedLoop(4)), Endpoint(provider.url), asyncio.Event(), processes=2)
