"""`python -m control_plane.tools.load.worker`: one of several generators of a run.

stdin: eight bytes with the length of a pickled (Plan, Endpoint), then that, from our own parent; its end
means stop. stdout: a JSON object a line, how far it is, and at last `{"ending": …, "tally": …}`.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import random
import sys
from typing import Any

import orjson
import uvloop

from control_plane.tools.load.generator import generate
from control_plane.tools.load.plan import Plan
from control_plane.tools.load.running import LOOK_EVERY_S
from control_plane.tools.load.tally import Tally, width_s
from control_plane.tools.load.wire import Endpoint, connected


async def work() -> None:
    """Do what stdin says."""
    stdin = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin.buffer)
    size = int.from_bytes(await stdin.readexactly(8), "big")
    order: tuple[Plan, Endpoint] = pickle.loads(await stdin.readexactly(size))
    plan, endpoint = order
    tally = Tally(width_s(plan.bounds.duration_s))
    stop = asyncio.Event()
    beside = [asyncio.create_task(_listen(stdin, stop)), asyncio.create_task(_tell(tally))]
    async with connected(endpoint) as send:
        ending = await generate(plan, send, tally, stop, random.Random())
    for task in beside:
        task.cancel()
    _write({"ending": ending.value, "tally": tally.as_json()})


async def _listen(stdin: asyncio.StreamReader, stop: asyncio.Event) -> None:
    await stdin.read()
    stop.set()


async def _tell(tally: Tally) -> None:
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        _write({"ended": tally.ended, "errors": tally.errors})


def _write(value: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.buffer.write(orjson.dumps(value) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    uvloop.run(work())
