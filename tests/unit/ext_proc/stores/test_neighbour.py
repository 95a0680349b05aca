"""Asking a neighbour that is late, fails, and comes back."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import pytest
import structlog
from sqlalchemy.exc import OperationalError
from structlog.testing import capture_logs

from ext_proc.stores.neighbour import LATE_IN_A_ROW, LATE_WHEN_BUSY, Away, Neighbour, kind_of


@dataclass
class Scripted:
    """A neighbour that does what it is told: how long it takes, and how it fails."""

    takes_s: float = 0.0
    error: Exception | None = None
    now: float = 0.0
    probes: int = 0
    neighbour: Neighbour = field(init=False)

    def __post_init__(self) -> None:
        self.neighbour = Neighbour(
            self.probe,
            within_s=0.01,
            at_once=2,
            clock=lambda: self.now,
            log=structlog.get_logger(),
            opens="it is away",
            closes="it is back",
        )

    async def probe(self) -> None:
        """Answer like any call, and be counted."""
        self.probes += 1
        await self.call()

    async def call(self) -> str:
        """Answer, or do not."""
        await asyncio.sleep(self.takes_s)
        if self.error is not None:
            raise self.error
        return "here"

    async def asked(self) -> str:
        """Return what the neighbour says, or that it is away."""
        try:
            return await self.neighbour.ask(self.call)
        except Away:
            return "away"


@pytest.fixture
async def it() -> Scripted:
    """A neighbour that is well."""
    return Scripted()


async def test_one_that_answers_is_heard(it: Scripted) -> None:
    """Nothing is counted."""
    assert await it.asked() == "here"
    assert (it.neighbour.is_away(), it.neighbour.failures) == (False, 0)


async def test_one_that_fails_is_left_alone_and_probed_in_the_background(it: Scripted) -> None:
    """No caller waits for the probe; each change is told once, in the error's kind alone."""
    with capture_logs() as logged:
        it.error = RuntimeError("redis://user:secret@host")
        assert [await it.asked() for _ in range(3)] == ["away"] * 3
        it.error = None
        assert [await it.asked() for _ in range(3)] == ["away"] * 3
        assert it.probes == 0
        it.now = 1.0
        assert it.neighbour.is_away()
        async with asyncio.timeout(5):
            while it.probes < 2:  # noqa: ASYNC110 - probes tell nobody
                await asyncio.sleep(0.001)
        assert await it.asked() == "here"
    assert logged == [
        {
            "event": "it is away",
            "error": "RuntimeError",
            "log_level": "warning",
        },
        {"event": "it is back", "log_level": "warning"},
    ]


async def test_some_late_answers_in_a_row_count_as_a_failure(it: Scripted) -> None:
    """One is nothing; a good one between them begins anew."""
    it.takes_s = 0.05
    assert [await it.asked() for _ in range(LATE_IN_A_ROW - 1)] == ["away"] * (LATE_IN_A_ROW - 1)
    await asyncio.sleep(it.takes_s)  # until they have ended, each keeps its turn
    it.takes_s = 0.0
    assert await it.asked() == "here"
    it.takes_s = 0.05
    count = 0
    while not it.neighbour.is_away():
        assert await it.asked() == "away"
        await asyncio.sleep(it.takes_s)
        count += 1
    assert LATE_IN_A_ROW <= count <= LATE_WHEN_BUSY


async def test_a_busy_process_is_slow_to_blame_the_neighbour(it: Scripted) -> None:
    """Whose answer may have been there all along; but not for ever."""

    async def busy() -> str:
        time.sleep(0.03)  # noqa: ASYNC251 - a loop that is held up is what is tested
        await asyncio.sleep(0.01)
        return "here"

    for _ in range(LATE_WHEN_BUSY):
        assert not it.neighbour.is_away()
        with pytest.raises(Away):
            await it.neighbour.ask(busy)
    assert it.neighbour.is_away()


async def test_calls_wait_for_their_turn_within_their_deadline(it: Scripted) -> None:
    """Those whose turn comes late are none of the neighbour's fault."""
    it.takes_s = 0.007
    assert (await asyncio.gather(*(it.asked() for _ in range(12)))).count("away") >= 10
    assert not it.neighbour.is_away()


async def test_one_that_answers_slowly_is_not_back(it: Scripted) -> None:
    """Else it would come and go for ever."""
    it.error = OSError()
    await it.asked()
    it.error, it.takes_s, it.now = None, 0.03, 1.0
    assert it.neighbour.is_away()
    await asyncio.sleep(0.06)
    assert it.probes == 2
    assert it.neighbour.is_away()


async def test_a_probe_that_is_ended_leaves_the_next_one(it: Scripted) -> None:
    """As when the process stops."""
    it.error = OSError()
    await it.asked()
    it.error, it.takes_s, it.now = None, 10.0, 1.0
    assert it.neighbour.is_away()
    await asyncio.sleep(0)
    await it.neighbour.close()
    it.takes_s = 0.0
    assert it.neighbour.is_away()
    await asyncio.sleep(0.002)
    assert not it.neighbour.is_away()


class _Named(Exception):
    sqlite_errorname = "SQLITE_FULL"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError(), "TimeoutError"),
        (OperationalError("SELECT 'secret'", {}, _Named("secret")), "SQLITE_FULL"),
        (OperationalError("SELECT 'secret'", {}, OSError("secret")), "OSError"),
    ],
    ids=["plain", "SQLite's", "a driver's"],
)
def test_an_error_is_told_by_its_kind(error: Exception, kind: str) -> None:
    """Its words may quote anything."""
    assert kind_of(error) == kind
