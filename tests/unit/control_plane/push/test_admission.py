"""Who may join, and for how long."""

from __future__ import annotations

import asyncio

import pytest
import structlog
from structlog.testing import capture_logs

from control_plane.push.admission import Admission, NotAdmittedError, NotCheckedError, Pass, bearer
from control_plane.push.sidecars import Identity


class Door:
    """Knows who may join, and counts how often it was asked."""

    def __init__(self) -> None:
        self.good = {"t"}
        self.asked: list[tuple[str, str]] = []
        self.broken = False
        self.every = 1

    async def may_join(self, token: str, source: str) -> Pass | None:
        """Look it up."""
        self.asked.append((token, source))
        await asyncio.sleep(0)
        if self.broken:
            raise OSError("the database is gone")
        return Pass(workload=token, every=self.every) if token in self.good else None


@pytest.fixture
def door() -> Door:
    """Return a door."""
    return Door()


@pytest.fixture
def admission(door: Door) -> Admission:
    """Return an admission that looks at tokens all the time."""
    return Admission(door.may_join, structlog.get_logger(), check_every_s=0.0)


@pytest.mark.parametrize(
    ("authorization", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer  abc ", "abc"),
        ("BEARER abc", "abc"),
        ("Basic abc", ""),
        ("abc", ""),
        ("Bearer", ""),
        ("", ""),
    ],
)
def test_a_token_comes_as_bearer(authorization: str, token: str) -> None:
    """Nothing else is one."""
    assert bearer(authorization) == token


@pytest.mark.parametrize("token", ["", "x"])
async def test_a_wrong_token_does_not_come_in(admission: Admission, token: str) -> None:
    """An empty one is not even looked up."""
    with pytest.raises(NotAdmittedError):
        async with admission.stay(token, "10.0.0.1", lambda: None):
            raise AssertionError("it came in")


async def test_a_fleet_with_one_token_is_checked_once(admission: Admission, door: Door) -> None:
    """However many come at the same time, and while one is inside."""

    async def come() -> None:
        async with admission.stay("t", "10.0.0.1", lambda: None):
            await asyncio.sleep(0.01)

    await asyncio.gather(*(come() for _ in range(100)))
    assert door.asked == [("t", "10.0.0.1")]
    await come()
    assert len(door.asked) == 2


async def test_when_a_token_ends_all_with_it_are_told_to_leave(admission: Admission, door: Door) -> None:
    """Once; those that have left before are not told."""
    told: list[str] = []
    watching = asyncio.create_task(admission.watch())
    async with admission.stay("t", "", lambda: told.append("a")):
        async with admission.stay("t", "", lambda: told.append("gone")):
            pass
        left = asyncio.Event()

        def leave() -> None:
            told.append("b")
            left.set()

        async with admission.stay("t", "", leave):
            door.good.clear()
            await asyncio.wait_for(left.wait(), 5)
    assert sorted(told) == ["a", "b"]
    with pytest.raises(NotAdmittedError):
        async with admission.stay("t", "", lambda: None):
            pass
    watching.cancel()


async def test_what_cannot_be_checked_changes_nothing(admission: Admission, door: Door) -> None:
    """Nobody comes in, nobody is told to leave; no line of the log has the token."""
    told: list[str] = []
    watching = asyncio.create_task(admission.watch())
    with capture_logs() as lines:
        async with admission.stay("t", "", lambda: told.append("a")):
            door.broken = True
            with pytest.raises(NotCheckedError):
                async with admission.stay("secret-token", "", lambda: None):
                    pass
            asked = len(door.asked)
            async with asyncio.timeout(5):
                while len(door.asked) < asked + 3:  # noqa: ASYNC110 - the door has no event
                    await asyncio.sleep(0)
    assert told == []
    assert lines
    assert "secret-token" not in repr((lines, admission))
    watching.cancel()


async def test_whoever_comes_in_gets_the_token_s_pass(admission: Admission) -> None:
    """The first one, and who comes while it is inside."""
    async with (
        admission.stay("t", "", lambda: None) as first,
        admission.stay("t", "", lambda: None) as second,
    ):
        assert first == second == Pass(workload="t")


def test_a_pass_counts_above_what_is_said() -> None:
    """Where it says nothing, the sidecar's own word does."""
    said = Identity("me", "mine", build="1", labels={"a": "b"})
    assert Pass().applied_to(said) == said
    known = Pass("shop/p", "shop", {"namespace": "shop"}).applied_to(said)
    assert (known.sidecar, known.workload, known.labels) == ("shop/p", "shop", {"namespace": "shop"})
    assert known.build == "1"


async def test_a_token_of_one_sidecar_is_looked_at_less_often(door: Door) -> None:
    """As often as its pass says."""
    door.every = 3
    admission = Admission(door.may_join, structlog.get_logger(), check_every_s=0.0)
    left = asyncio.Event()
    async with admission.stay("t", "10.0.0.1", left.set):
        watching = asyncio.create_task(admission.watch())
        while len(door.asked) < 3:  # noqa: ASYNC110 - it is the loop that is tested
            await asyncio.sleep(0)
        door.good.clear()
        await asyncio.wait_for(left.wait(), 5)
        watching.cancel()


async def test_no_token_waits_for_another_one_s_look(door: Door) -> None:
    """The API server is silent about a pod's; another one that ends is told to leave all the same."""
    left, silent = asyncio.Event(), asyncio.Event()
    door.good = {"pod", "t"}

    async def may_join(token: str, source: str) -> Pass | None:
        if token == "pod" and not source:
            await silent.wait()
        return await door.may_join(token, source)

    admission = Admission(may_join, structlog.get_logger(), check_every_s=0.0)
    async with admission.stay("pod", "a", lambda: None), admission.stay("t", "b", left.set):
        watching = asyncio.create_task(admission.watch())
        door.good = {"pod"}
        await asyncio.wait_for(left.wait(), 5)
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching
    silent.set()
