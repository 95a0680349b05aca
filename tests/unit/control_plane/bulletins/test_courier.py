"""Telling: at once, again after a while, never for ever, and nobody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
import structlog
from structlog.testing import capture_logs

from control_plane.bulletins.courier import (
    AT_ONCE,
    Courier,
    NotTakenError,
    Result,
    backoff_s,
)
from control_plane.registry.bulletins import Taken
from control_plane.registry.errors import StoreUnavailableError
from control_plane.registry.ports import Bulletin
from control_plane.resources.kinds.release import Webhook

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def bulletin(name: str = "a", *, attempts: int = 0, age: timedelta = timedelta()) -> Bulletin:
    """Return a bulletin for the webhook `name`."""
    return Bulletin(name, "r", f'{{"url": "http://h/{name}"}}', "{}", NOW - age, NOW, attempts)


class Box:
    """An outbox in memory: what is in it is due at once, and each is handed out once."""

    def __init__(self, waiting: Iterable[Bulletin]) -> None:
        self.waiting = list(waiting)
        self.failures: list[Exception] = []
        self.gone: list[str] = []
        self.put: list[tuple[str, float]] = []
        self.limits: list[int] = []

    async def take(self, limit: int) -> Taken:
        """Hand out."""
        self.limits.append(limit)
        if self.failures:
            raise self.failures.pop()
        taken, self.waiting = self.waiting[:limit], self.waiting[limit:]
        return Taken(tuple(taken), NOW if self.waiting else None)

    async def done(self, bulletin: Bulletin) -> None:
        """Forget."""
        self.gone.append(bulletin.id)

    async def put_off(self, bulletin: Bulletin, seconds: float) -> None:
        """Remember for how long."""
        self.put.append((bulletin.id, seconds))


class Receiver:
    """Webhooks: takes everything, or raises what it was told to."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.urls: list[str] = []
        self.open = asyncio.Event()
        self.open.set()

    async def send(self, _: Bulletin, webhook: Webhook) -> None:
        """Take it."""
        self.urls.append(webhook.url)
        await self.open.wait()
        if self.failures:
            raise self.failures.pop()


@asynccontextmanager
async def running(box: Box, receiver: Receiver) -> AsyncIterator[tuple[Courier, list[Result]]]:
    """Run a courier; yields it with what it counted."""
    counted: list[Result] = []
    courier = Courier(
        box, receiver.send, now=lambda: NOW, log=structlog.get_logger("test"), count=counted.append
    )
    task = asyncio.create_task(courier.run())
    yield courier, counted
    task.cancel()
    await asyncio.wait([task])


async def until(condition: Callable[[], bool]) -> None:
    """Let the courier go on until `condition` holds."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  # the courier has no event for each of its steps
            await asyncio.sleep(0)


async def test_what_is_due_is_told_and_forgotten() -> None:
    """At once, and what comes later when it is woken."""
    box, receiver = Box([bulletin("a"), bulletin("b")]), Receiver()
    async with running(box, receiver) as (courier, counted):
        await until(lambda: box.gone == ["a", "b"])
        box.waiting.append(bulletin("c"))
        courier.wake()
        await until(lambda: box.gone == ["a", "b", "c"])
    assert receiver.urls == ["http://h/a", "http://h/b", "http://h/c"]
    assert counted == [Result.DELIVERED] * 3


async def test_what_is_not_taken_waits_for_longer_each_time() -> None:
    """The reason is told, the URL is not."""
    box, receiver = Box([bulletin("a", attempts=3)]), Receiver(NotTakenError("it answered with 500"))
    with capture_logs() as logs:
        async with running(box, receiver) as (_, counted):
            await until(lambda: bool(box.put))
    assert (box.put, box.gone, counted) == ([("a", 8.0)], [], [Result.FAILED])
    assert (logs[0]["reason"], logs[0]["attempts"]) == ("it answered with 500", 4)
    assert "http" not in str(logs)


@pytest.mark.parametrize(
    ("failure", "age"),
    [
        (NotTakenError("it answered with 410", for_good=True), timedelta()),
        (NotTakenError("it cannot be reached"), timedelta(hours=24)),
    ],
)
async def test_it_is_given_up_in_the_end(failure: NotTakenError, age: timedelta) -> None:
    """After a day, or when the webhook asks for no more."""
    box = Box([bulletin("a", attempts=9, age=age)])
    async with running(box, Receiver(failure)) as (_, counted):
        await until(lambda: bool(box.gone))
    assert (box.put, counted) == ([], [Result.GIVEN_UP])


async def test_what_cannot_be_read_is_given_up() -> None:
    """It would be tried for ever."""
    box, receiver = Box([Bulletin("a", "r", '{"uri": "x"}', "{}", NOW, NOW)]), Receiver()
    async with running(box, receiver) as (_, counted):
        await until(lambda: box.gone == ["a"])
    assert (receiver.urls, counted) == ([], [Result.GIVEN_UP])


async def test_one_that_hangs_keeps_no_other_waiting() -> None:
    """And never more than a few are told at once."""
    box, receiver = Box(bulletin(str(number)) for number in range(AT_ONCE + 1)), Receiver()
    receiver.open.clear()
    async with running(box, receiver) as (courier, _):
        await until(lambda: len(receiver.urls) == AT_ONCE)
        courier.wake()
        await until(lambda: box.limits[-1] == 0)
        assert len(receiver.urls) == AT_ONCE
        receiver.open.set()
        await until(lambda: len(box.gone) == AT_ONCE + 1)


async def test_a_database_that_is_away_ends_nothing() -> None:
    """It is asked again."""
    box = Box([bulletin("a")])
    box.failures.append(StoreUnavailableError("gone"))
    async with running(box, Receiver()) as (courier, _):
        await until(lambda: not box.failures)
        courier.wake()
        await until(lambda: box.gone == ["a"])


async def test_a_defect_ends_nothing() -> None:
    """It is told in the log, and the next one is delivered."""
    box = Box([bulletin("a")])
    with capture_logs() as logs:
        async with running(box, Receiver(RuntimeError("defect"))) as (courier, _):
            await until(lambda: bool(logs))
            box.waiting.append(bulletin("b"))
            courier.wake()
            await until(lambda: box.gone == ["b"])
    assert logs[0]["error"] == "defect"


def test_waits_double_up_to_five_minutes() -> None:
    """A webhook that is down for long costs little."""
    assert [backoff_s(attempts) for attempts in (0, 1, 2, 8, 9, 1000)] == [1, 2, 4, 256, 300, 300]
