"""One generator as a process."""

from __future__ import annotations

import asyncio
import pickle
import sys

import orjson

from control_plane.tools.load.calls import Operation
from control_plane.tools.load.mix import PromptMix
from control_plane.tools.load.plan import Bounds, ClosedLoop, Plan
from control_plane.tools.load.running import WORKER
from control_plane.tools.load.tally import Tally
from control_plane.tools.load.wire import Endpoint
from control_plane.tools.provider import ProviderSettings, running_provider


async def test_the_end_of_stdin_stops_it_with_its_report() -> None:
    """A parent that is gone leaves no load behind. Its progress is a line now and then."""
    async with running_provider(ProviderSettings(rtt_ms=2)) as provider:
        plan = Plan(PromptMix(Operation.CHAT, "m"), ClosedLoop(2), Bounds(1_000_000, 60.0))
        order = pickle.dumps((plan, Endpoint(provider.url, {"authorization": "Bearer k"})))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            WORKER,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=1 << 24,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(30):
                process.stdin.write(len(order).to_bytes(8, "big") + order)
                while not orjson.loads(await process.stdout.readline())["ended"]:
                    pass
                process.stdin.close()
                *_, last = [line async for line in process.stdout]
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    report = orjson.loads(last)
    assert report["ending"] == "interrupted"
    assert Tally.from_json(report["tally"]).good > 0
