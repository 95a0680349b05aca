"""Slots, the queue and cold starts, on a clock that jumps."""

from __future__ import annotations

import asyncio

import pytest

from control_plane.tools.provider.errors import ApiError
from control_plane.tools.provider.slots import Slots
from tests.unit.control_plane.tools.provider.clocks import JumpingClock


def made(clock: JumpingClock, *, size: int = 0, queue: int | None = None, cold_start_s: float = 0) -> Slots:
    """Return slots that go cold after 60 s."""
    return Slots(size=size, queue=queue, cold_start_s=cold_start_s, idle_after_s=60, clock=clock)


async def test_cold_then_warm_then_cold() -> None:
    """The first call waits for the start, the next do not, and after a long pause one waits again."""
    clock = JumpingClock()
    slots = made(clock, cold_start_s=2)
    waits = []
    for pause in (0, 1, 59, 61):
        clock.now += pause
        before = clock.now
        async with slots.occupy():
            waits.append(clock.now - before)
    assert waits == [2, 0, 0, 2]


async def test_each_slot_starts_cold() -> None:
    """Warming up takes as many calls at once as there are slots."""
    clock = JumpingClock()
    slots = made(clock, size=2, cold_start_s=2)
    async with slots.occupy(), slots.occupy():
        assert clock.now == 1004
    async with slots.occupy(), slots.occupy():
        assert clock.now == 1004


async def test_a_busy_instance_does_not_go_cold() -> None:
    """A call that runs for longer than the idle time keeps the instance warm."""
    clock = JumpingClock()
    slots = made(clock, cold_start_s=2)
    async with slots.occupy():
        clock.now += 1000
        before = clock.now
        async with slots.occupy():
            assert clock.now == before


async def test_callers_wait_their_turn() -> None:
    """With all slots taken callers queue and are served first come, first served; a full queue refuses."""
    slots = made(JumpingClock(), size=1, queue=2)
    order: list[int] = []
    release = asyncio.Event()

    async def call(number: int) -> None:
        async with slots.occupy():
            order.append(number)
            await release.wait()

    tasks = [asyncio.create_task(call(number)) for number in range(3)]
    await asyncio.sleep(0)
    assert slots.waiting == 2
    with pytest.raises(ApiError) as caught:
        await call(9)
    assert caught.value.status == 503
    release.set()
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2]


@pytest.mark.parametrize("late", [False, True], ids=["while-waiting", "as-the-slot-comes"])
async def test_a_caller_that_leaves_the_queue_loses_no_slot(late: bool) -> None:
    """A cancelled waiter gives its place, or the slot it was just given, to the next."""
    slots = made(JumpingClock(), size=1)
    release = asyncio.Event()

    async def call(gate: asyncio.Event) -> None:
        async with slots.occupy():
            await gate.wait()

    holder = asyncio.create_task(call(release))
    await asyncio.sleep(0)
    leaver = asyncio.create_task(call(release))
    stayer = asyncio.create_task(call(release))
    await asyncio.sleep(0)
    release.set()
    if late:
        await holder
    leaver.cancel()
    async with asyncio.timeout(1):
        await asyncio.gather(holder, stayer)
        async with slots.occupy():
            assert slots.waiting == 0
