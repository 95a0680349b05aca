"""Who waits in which line, in virtual time."""

from __future__ import annotations

import asyncio

from ext_proc.contract.snapshot import Quota
from ext_proc.providers.line import Blocked, Obstacle, Outcome, Went
from ext_proc.providers.lines import Lines
from ext_proc.providers.quota import Ask
from tests.harness.virtual_time import run_virtually


class Before:
    """Lines before Backends whose keys cool until the times in `until`."""

    def __init__(self) -> None:
        self.until: dict[str, float] = {}
        self.clock = asyncio.get_running_loop().time
        self.lines = Lines(self.try_to_go, lambda draft: None, self.until.__contains__)

    async def try_to_go(self, ask: Ask, bears_s: float) -> Outcome:
        """Let it go unless its key or its Backend cools."""
        until = max(self.until.get(ask.scope, 0.0), self.until.get(ask.backend, 0.0))
        if until > self.clock():
            alone = self.lines.is_alone(ask)
            return Blocked(until - self.clock(), Obstacle.COOLING, alone=alone)
        return Went(None)

    async def come(self, scope: str, patience_s: float = 100.0) -> float:
        """Wait in line; return when it went, -1 if it was refused."""
        ask = Ask("b", Quota(), scope=scope)
        until = self.clock() + patience_s
        outcome = await self.lines.wait(ask, 0, until, self.clock, elsewhere=False)
        return round(self.clock(), 1) if isinstance(outcome, Went) else -1.0


def test_a_key_that_cools_waits_beside_the_line() -> None:
    """All wait for the Backend in one line; then only the key does, by what is left of its patience."""

    async def scenario() -> None:
        before = Before()
        before.until["b"] = 5.0
        coming = [asyncio.create_task(before.come(scope)) for scope in ("b#1", "b#2", "b")]
        impatient = asyncio.create_task(before.come("b#1", 20.0))
        await asyncio.sleep(1.0)
        before.until["b#1"] = 30.0
        before.lines.look_again("b#1")
        assert await asyncio.gather(*coming, impatient) == [30.0, 5.0, 5.0, -1.0]
        assert not before.lines.waits(Ask("b", Quota(), scope="b#1"))

    run_virtually(scenario())


def test_word_of_a_key_wakes_its_own_and_word_of_a_backend_all() -> None:
    """Whoever was to wait longer looks again."""

    async def scenario() -> None:
        before = Before()
        before.until.update({"b#1": 50.0, "b#2": 50.0})
        coming = [asyncio.create_task(before.come(scope)) for scope in ("b#1", "b#2")]
        await asyncio.sleep(1.0)
        before.until.update({"b#1": 0.0, "b#2": 0.0})
        before.lines.look_again("other")
        before.lines.look_again("b#1")
        await asyncio.sleep(1.0)
        assert [one.done() for one in coming] == [True, False]
        before.lines.look_again("b")
        assert await asyncio.gather(*coming) == [1.0, 2.0]

    run_virtually(scenario())


def test_they_can_be_closed() -> None:
    """Nobody waits any more."""

    async def scenario() -> None:
        before = Before()
        before.until.update({"b": 5.0, "b#1": 5.0})
        coming = [asyncio.create_task(before.come(scope)) for scope in ("b", "b#1")]
        await asyncio.sleep(1.0)
        await before.lines.close()
        outcomes = await asyncio.gather(*coming, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in outcomes)

    run_virtually(scenario())
