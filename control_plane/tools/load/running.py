"""Running a plan: in this process, or divided among several, since one Python process fills one core."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import random
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import orjson

from control_plane.tools.load.generator import Ending, generate
from control_plane.tools.load.plan import Plan, divided
from control_plane.tools.load.tally import Tally, width_s
from control_plane.tools.load.wire import Endpoint, connected, trusted

LOOK_EVERY_S: Final = 0.25
LONGEST_LINE: Final = 256 << 20
END_S: Final = 5.0
WORKER: Final = "control_plane.tools.load.worker"

Watch = Callable[[int, int], None]
"""Is told now and then how many calls have ended, and how many of them are errors."""


class WorkerLost(Exception):
    """A process of the generator ended without a report."""


async def run_load(
    plan: Plan, endpoint: Endpoint, stop: asyncio.Event, *, processes: int = 1, watch: Watch | None = None
) -> tuple[Tally, Ending]:
    """Make the load and return what was counted, and why it ended; a set `stop` ends it early.

    Raises:
        WorkerLost: one of several processes died.
        CannotConnect: the authority's file cannot be read.
    """
    trusted(endpoint)
    plans = divided(plan, processes)
    if len(plans) > 1:
        return await _divided(plans, endpoint, stop, watch)
    tally = Tally(width_s(plan.bounds.duration_s))
    async with _looking(watch, lambda: (tally.ended, tally.errors)), connected(endpoint) as send:
        return tally, await generate(plan, send, tally, stop, random.Random())


@asynccontextmanager
async def _looking(watch: Watch | None, figures: Callable[[], tuple[int, int]]) -> AsyncIterator[None]:
    async def look() -> None:
        while watch is not None:
            await asyncio.sleep(LOOK_EVERY_S)
            watch(*figures())

    task = asyncio.create_task(look())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _divided(
    plans: tuple[Plan, ...], endpoint: Endpoint, stop: asyncio.Event, watch: Watch | None
) -> tuple[Tally, Ending]:
    seen = [(0, 0)] * len(plans)

    def figures() -> tuple[int, int]:
        return sum(ended for ended, _ in seen), sum(errors for _, errors in seen)

    try:
        async with _looking(watch, figures), asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_worker(plan, endpoint, stop, seen, place))
                for place, plan in enumerate(plans)
            ]
    except* WorkerLost as lost:
        raise lost.exceptions[0] from None
    total = Tally(width_s(plans[0].bounds.duration_s))
    endings = []
    for task in tasks:
        tally, ending = task.result()
        total.add(tally)
        endings.append(ending)
    return total, max(endings, key=list(Ending).index)


async def _worker(
    plan: Plan, endpoint: Endpoint, stop: asyncio.Event, seen: list[tuple[int, int]], place: int
) -> tuple[Tally, Ending]:
    # A session of its own: Ctrl-C is for us, who then ask for the report. Keys go by stdin, not by argv.
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        WORKER,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
        limit=LONGEST_LINE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    order = pickle.dumps((plan, endpoint))
    process.stdin.write(len(order).to_bytes(8, "big") + order)
    told = asyncio.create_task(_hang_up_on(stop, process.stdin))
    try:
        async for line in process.stdout:
            value = orjson.loads(line)
            if "ending" in value:
                return Tally.from_json(value["tally"]), Ending(value["ending"])
            seen[place] = (value["ended"], value["errors"])
        raise WorkerLost("a process of the load generator died; try fewer with --processes")
    finally:
        told.cancel()
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), END_S)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _hang_up_on(stop: asyncio.Event, stdin: asyncio.StreamWriter) -> None:
    await stop.wait()
    stdin.close()
