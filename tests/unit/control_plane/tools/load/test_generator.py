"""One generator, with a server that is a function."""

from __future__ import annotations

import asyncio
import time

import pytest

from control_plane.tools.load.calls import Call
from control_plane.tools.load.generator import Ending, generate
from control_plane.tools.load.plan import Bounds, ClosedLoop, OpenLoop, Plan
from control_plane.tools.load.tally import Tally
from control_plane.tools.load.verdicts import Verdict
from control_plane.tools.load.wire import Outcome
from tests.unit.control_plane.tools.load.runs import MIX


class Server:
    """Answers after some time; remembers how many calls were there at once. `stall_at` hangs one call;
    `stop` is set after so many answers.
    """

    def __init__(
        self, seconds: float = 0.001, stall_at: int | None = None, stop_after: int | None = None
    ) -> None:
        self.most = 0
        self.begun: list[float] = []
        self.stop = asyncio.Event()
        self._answered = 0
        self._stop_after = stop_after
        self.seen: list[bytes] = []
        self._seconds = seconds
        self._stall_at = stall_at
        self._now = 0

    async def __call__(self, call: Call) -> Outcome:
        """Answer one call."""
        began = time.perf_counter()
        self.begun.append(began)
        self._now += 1
        self.most = max(self.most, self._now)
        self.seen.append(call.content)
        try:
            await asyncio.sleep(60 if len(self.seen) == self._stall_at else self._seconds)
        finally:
            self._now -= 1
        self._answered += 1
        if self._answered == self._stop_after:
            self.stop.set()
        return Outcome(Verdict("200", True), began, time.perf_counter())


async def ran(plan: Plan, server: Server) -> tuple[Tally, Ending]:
    """Run a plan to its end."""
    tally = Tally()
    return tally, await generate(plan, server, tally, server.stop)


async def test_callers_of_a_closed_loop_wait_for_their_answers() -> None:
    """Never more calls at once than callers; exactly as many calls as said, each another question."""
    server = Server()
    tally, ending = await ran(Plan(MIX, ClosedLoop(4), Bounds(30, 5.0)), server)
    assert (tally.good, server.most, ending) == (30, 4, Ending.REQUESTS)
    assert len(set(server.seen)) == 30
    assert 0 < tally.seconds < 5


async def test_callers_begin_over_the_ramp() -> None:
    """Not all at once."""
    server = Server(seconds=0.1)
    start = time.perf_counter()
    await ran(Plan(MIX, ClosedLoop(4, ramp_s=0.08), Bounds(4, 5.0)), server)
    assert all(begun - start >= 0.019 * place for place, begun in enumerate(server.begun))


async def test_time_ends_a_run() -> None:
    """No call starts afterwards; those on their way come home."""
    tally, ending = await ran(Plan(MIX, ClosedLoop(2), Bounds(10**6, 0.05)), Server(0.002))
    assert ending is Ending.DURATION
    assert (tally.unfinished, tally.errors) == (0, 0)


async def test_a_call_that_hangs_is_given_up_after_the_drain() -> None:
    """It is no error and no success."""
    plan = Plan(MIX, ClosedLoop(1), Bounds(5, 0.02, drain_s=0.02))
    tally, _ = await ran(plan, Server(0.001, stall_at=2))
    assert (tally.started, tally.ended, tally.unfinished) == (2, 1, 1)


async def test_an_open_loop_keeps_its_pace_while_a_call_hangs() -> None:
    """The others go on."""
    plan = Plan(MIX, OpenLoop(500.0), Bounds(20, 5.0, drain_s=0.0))
    tally, ending = await ran(plan, Server(0.001, stall_at=3, stop_after=19))
    assert (tally.started, tally.good, tally.unfinished, ending) == (20, 19, 1, Ending.INTERRUPTED)


async def test_waiting_for_room_is_part_of_the_latency() -> None:
    """A server that is too slow for the rate shows it, though each call is quick by itself."""
    plan = Plan(MIX, OpenLoop(1000.0, most_in_flight=1), Bounds(10, 5.0))
    tally, _ = await ran(plan, Server(0.01))
    assert tally.good == 10
    assert tally.waited > 3
    assert tally.latency.max_ms > 3 * tally.service.percentile_ms(50)


async def test_calls_that_were_due_and_not_sent_are_counted() -> None:
    """When the time is over before their turn comes."""
    plan = Plan(MIX, OpenLoop(1000.0, most_in_flight=1), Bounds(10**6, 0.05))
    tally, ending = await ran(plan, Server(0.02))
    assert ending is Ending.DURATION
    assert tally.unsent > 20
    assert tally.unsent + tally.started == pytest.approx(50, abs=2)


async def test_a_stop_ends_at_once_with_what_was_counted() -> None:
    """Ctrl-C loses no figure."""
    plan = Plan(MIX, ClosedLoop(3), Bounds(10**6, 60.0))
    tally, ending = await ran(plan, Server(0.002, stop_after=10))
    assert ending is Ending.INTERRUPTED
    assert tally.good in range(7, 14)
    assert tally.unfinished <= 3


async def test_a_defect_is_not_swallowed() -> None:
    """It ends the run."""

    async def broken(call: Call) -> Outcome:
        raise RuntimeError("a defect")

    with pytest.raises(ExceptionGroup):
        await generate(Plan(MIX, ClosedLoop(2), Bounds(5, 5.0)), broken, Tally(), asyncio.Event())
