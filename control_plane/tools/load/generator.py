"""One generator: makes the calls of a plan, in closed or open loop, until its bounds or until it is told."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from control_plane.tools.load.arrivals import moments
from control_plane.tools.load.calls import Call
from control_plane.tools.load.plan import ClosedLoop, OpenLoop, Plan
from control_plane.tools.load.tally import Tally
from control_plane.tools.load.wire import Send

YIELD_EVERY: Final = 32  # calls sent in a row when the generator is behind, before replies are read


class Ending(StrEnum):
    """Why a run ended."""

    REQUESTS = "requests"
    DURATION = "duration"
    INTERRUPTED = "interrupted"


async def generate(
    plan: Plan, send: Send, tally: Tally, stop: asyncio.Event, chance: random.Random | None = None
) -> Ending:
    """Make the calls of `plan` and count them in `tally`; a set `stop` ends it at once."""
    began_cpu = time.process_time()
    run = _Run(plan, send, tally)
    work = asyncio.create_task(
        run.closed(plan.pace) if isinstance(plan.pace, ClosedLoop) else run.open(plan.pace, chance)
    )
    told = asyncio.create_task(stop.wait())
    limit_s = plan.bounds.duration_s + plan.bounds.drain_s
    try:
        await asyncio.wait({work, told}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (work, told):
            task.cancel()
        results = await asyncio.gather(work, told, return_exceptions=True)
        tally.seconds = run.last - run.start
        tally.cpu_s = time.process_time() - began_cpu
    if isinstance(results[0], Exception):
        raise results[0]
    if stop.is_set():
        return Ending.INTERRUPTED
    return Ending.REQUESTS if tally.started >= plan.bounds.requests else Ending.DURATION


class _Run:
    """The state of one run."""

    def __init__(self, plan: Plan, send: Send, tally: Tally) -> None:
        self.start = self.last = time.perf_counter()
        self._deadline = self.start + plan.bounds.duration_s
        self._plan = plan
        self._send = send
        self._tally = tally
        self._calls: Iterator[Call] = plan.mix.calls(plan.first, plan.share[1])

    async def closed(self, pace: ClosedLoop) -> None:
        """Let the callers begin, spread over the ramp."""
        async with asyncio.TaskGroup() as group:
            for place in range(pace.callers):
                group.create_task(self._caller(pace.ramp_s * place / pace.callers))

    async def open(self, pace: OpenLoop, chance: random.Random | None) -> None:
        """Start each call at its moment."""
        room = asyncio.Semaphore(pace.most_in_flight)
        times = moments(pace.rate, pace.ramp_s, pace.arrivals, share=self._plan.share, chance=chance)
        async with asyncio.TaskGroup() as group:
            for number, moment in enumerate(times):
                intended = self.start + moment
                if number >= self._plan.bounds.requests or intended >= self._deadline:
                    break
                wait_s = intended - time.perf_counter()
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
                elif number % YIELD_EVERY == 0:
                    await asyncio.sleep(0)
                self._tally.waited += room.locked()
                await room.acquire()
                if self._over():
                    room.release()
                    self._tally.unsent += 1
                    continue
                self._tally.started += 1
                group.create_task(self._due(next(self._calls), intended, room))

    async def _caller(self, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        while self._tally.started < self._plan.bounds.requests and not self._over():
            self._tally.started += 1
            await self._one(next(self._calls), None)

    async def _due(self, call: Call, intended: float, room: asyncio.Semaphore) -> None:
        try:
            await self._one(call, intended)
        finally:
            room.release()

    async def _one(self, call: Call, intended: float | None) -> None:
        outcome = await self._send(call)
        self.last = max(self.last, outcome.ended)
        self._tally.record(outcome, outcome.began if intended is None else intended, self.start)

    def _over(self) -> bool:
        return time.perf_counter() >= self._deadline
