"""Who goes when, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from ext_proc.contract.snapshot import Quota
from ext_proc.providers.line import LONGEST_S, Blocked, Line, Obstacle, Outcome, Went
from ext_proc.providers.quota import Ask, Draft
from tests.harness.virtual_time import run_virtually

ASK = Ask("b", Quota())


class Door:
    """A line before a door that lets one pass every so many seconds."""

    def __init__(
        self, every_s: float = 1.0, obstacle: Obstacle = Obstacle.QUOTA, *, hopeful: bool = True
    ) -> None:
        self.every_s = every_s
        self.obstacle = obstacle
        self.hopeful = hopeful
        self.next_at = every_s
        self.given_back: list[Draft] = []
        self.empty = 0
        self.borne: list[float] = []
        self.line = Line(self.try_to_go, self.given_back.append, self.emptied)
        self.went: list[str] = []

    async def try_to_go(self, ask: Ask, bears_s: float) -> Outcome:
        """Let one pass when it is time."""
        now = asyncio.get_running_loop().time()
        self.borne.append(bears_s)
        if now + 1e-9 < self.next_at:
            return Blocked(self.next_at - now, self.obstacle, hopeful=self.hopeful)
        self.next_at = now + self.every_s
        return Went(Draft(ask, 0))

    def emptied(self) -> None:
        """Count it."""
        self.empty += 1

    async def come(
        self, name: str, priority: int = 0, patience_s: float = 10.0, *, elsewhere: bool = False
    ) -> Outcome:
        """Wait in the line."""
        outcome = await self.line.wait(ASK, priority, patience_s, elsewhere=elsewhere)
        if isinstance(outcome, Went):
            self.went.append(name)
        return outcome


def test_by_priority_then_as_they_came() -> None:
    """One who comes later overtakes those whose Tier counts for less."""

    async def scenario() -> None:
        door = Door()
        calls = [
            asyncio.create_task(door.come(name, priority))
            for name, priority in (("a", 0), ("b", 0), ("c", 5))
        ]
        await asyncio.sleep(0.5)
        assert len(door.line) == 3
        calls.append(asyncio.create_task(door.come("d", 9)))
        await asyncio.gather(*calls)
        assert door.went == ["d", "c", "a", "b"]
        assert asyncio.get_running_loop().time() == pytest.approx(4.0, abs=0.03)
        await asyncio.sleep(0)
        assert door.empty == 1
        assert len(door.line) == 0

    run_virtually(scenario())


def test_patience_ends() -> None:
    """Each by its own; nobody before it as long as it may be sooner."""

    async def scenario() -> None:
        door = Door(100.0)
        blocked = await asyncio.gather(door.come("a", patience_s=3.0), door.come("b", patience_s=1.0))
        assert all(isinstance(one, Blocked) for one in blocked)
        assert asyncio.get_running_loop().time() == pytest.approx(3.0, abs=0.03)

    run_virtually(scenario())


def test_nobody_waits_in_vain() -> None:
    """When it is known that it takes longer than one's patience, one is told at once."""

    async def scenario() -> None:
        door = Door(7.0, Obstacle.COOLING, hopeful=False)
        patient = asyncio.create_task(door.come("patient", patience_s=8.0))
        blocked = await door.come("hasty", patience_s=6.0)
        assert isinstance(blocked, Blocked)
        assert blocked.wait_s == pytest.approx(7.0)
        assert asyncio.get_running_loop().time() == 0.0
        assert isinstance(await patient, Went)

    run_virtually(scenario())


def test_a_place_is_waited_for_as_long_as_it_takes() -> None:
    """Within reason: how long calls take is no matter of a provider's quota."""

    async def scenario() -> None:
        assert isinstance(await Door(50.0, Obstacle.PLACES).come("a", patience_s=1.0), Went)
        assert isinstance(await Door(LONGEST_S * 2, Obstacle.PLACES).come("a", patience_s=1.0), Blocked)

    run_virtually(scenario())


def test_whoever_has_a_better_place_leaves_when_it_cools() -> None:
    """The others stay."""

    async def scenario() -> None:
        door = Door(2.0, Obstacle.COOLING)
        staying = asyncio.create_task(door.come("stays"))
        assert isinstance(await door.come("leaves", elsewhere=True), Blocked)
        assert asyncio.get_running_loop().time() == 0.0
        assert isinstance(await staying, Went)

    run_virtually(scenario())


@pytest.mark.parametrize("first", [True, False])
def test_one_who_leaves_frees_its_place(*, first: bool) -> None:
    """The other goes when it would have been the first's turn."""

    async def scenario() -> None:
        door = Door()
        calls = [asyncio.create_task(door.come(name)) for name in "ab"]
        await asyncio.sleep(0.1)
        calls[0 if first else 1].cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        assert door.went == ["b" if first else "a"]
        assert asyncio.get_running_loop().time() == pytest.approx(1.0, abs=0.03)

    run_virtually(scenario())


@pytest.mark.parametrize("moment", [0, 1, 2, 3, 4])
def test_what_was_drawn_for_one_who_has_left_is_given_back(moment: int) -> None:
    """At whichever step of its turn it leaves: it goes, or its draft is back."""

    async def scenario() -> None:
        door = Door(0.0)
        call = asyncio.create_task(door.come("a"))
        for _ in range(moment):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await asyncio.sleep(0.01)
        drawn = sum(1 for _ in door.borne)
        assert len(door.given_back) + len(door.went) == drawn

    run_virtually(scenario())


def test_it_looks_again_when_told() -> None:
    """Something may have changed."""

    async def scenario() -> None:
        door = Door(9.0)
        call = asyncio.create_task(door.come("a"))
        await asyncio.sleep(1.0)
        door.next_at = 0.0
        door.line.look_again()
        await call
        assert asyncio.get_running_loop().time() == pytest.approx(1.0, abs=0.03)

    run_virtually(scenario())


def test_the_distance_that_is_borne_gives_all_their_turn() -> None:
    """Four within eight tenths of ten seconds; never beyond the first one's patience."""

    async def scenario() -> None:
        door = Door(1.0)
        await asyncio.gather(*(door.come(name) for name in "abcd"))
        assert door.borne[0] == pytest.approx(2.0, abs=0.03)
        assert door.borne[-1] == pytest.approx(6.0, abs=0.03)

    run_virtually(scenario())


def test_a_failure_is_everybodys() -> None:
    """Nobody is left waiting; the next one begins anew."""

    async def scenario() -> None:
        door = Door()

        async def failing(ask: Ask, bears_s: float) -> Outcome:
            raise OSError("lost")

        broken = Line(failing, door.given_back.append, door.emptied)
        outcomes = await asyncio.gather(*(broken.wait(ASK, 0, 5.0) for _ in range(2)), return_exceptions=True)
        assert [type(one) for one in outcomes] == [OSError, OSError]
        assert door.empty == 1

    run_virtually(scenario())


def test_it_can_be_closed() -> None:
    """Whoever waits is cancelled."""

    async def scenario() -> None:
        door = Door(100.0)
        call = asyncio.create_task(door.come("a", patience_s=500.0))
        await asyncio.sleep(0.1)
        await door.line.close()
        await asyncio.gather(call, return_exceptions=True)
        assert call.cancelled()
        await Door().line.close()

    run_virtually(scenario())


def test_what_is_in_the_way_of_one_alone_holds_nobody_else() -> None:
    """It leaves the line at once; those behind it go in their turn."""

    async def scenario() -> None:
        async def try_to_go(ask: Ask, bears_s: float) -> Outcome:
            return Blocked(60.0, Obstacle.COOLING, alone=True) if ask.scope else Went(None)

        line = Line(try_to_go, lambda draft: None, lambda: None)
        held, free = await asyncio.gather(
            line.wait(ASK._replace(scope="b#1"), 0, 100.0), line.wait(ASK, 0, 100.0)
        )
        assert isinstance(held, Blocked)
        assert held.alone
        assert isinstance(free, Went)
        assert asyncio.get_running_loop().time() == 0.0

    run_virtually(scenario())
