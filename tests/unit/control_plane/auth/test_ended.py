"""Sessions that were logged out: here at once, in the database when it answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from control_plane.auth.ended import EndedSessions
from control_plane.registry.errors import StoreUnavailableError


class Rows:
    """A database's rows, which can be away."""

    def __init__(self) -> None:
        self.kept: dict[str, float] = {}
        self.changed = asyncio.Event()
        self.away = False

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[Rows]:
        """Look."""
        if self.away:
            raise StoreUnavailableError("away")
        yield self

    async def end_sessions(self, until_s: Mapping[str, float], now_s: float) -> None:
        """Keep."""
        self.kept = {one: at for one, at in {**self.kept, **until_s}.items() if at > now_s}
        self.changed.set()

    async def ended_sessions(self) -> dict[str, float]:
        """Return all."""
        return dict(self.kept)


async def test_one_that_was_logged_out_is_so_on_every_replica() -> None:
    """At once here, with the next look there."""
    rows = Rows()
    here, there = EndedSessions(rows, lambda: 10.0), EndedSessions(rows, lambda: 10.0)
    here.add("s", 20.0)
    assert "s" in here
    await here.look()
    await there.look()
    assert "s" in there


async def test_while_the_database_is_away_it_is_remembered() -> None:
    """And kept once it is back."""
    rows = Rows()
    here = EndedSessions(rows, lambda: 10.0)
    rows.away = True
    here.add("s", 20.0)
    await here.look()
    assert "s" in here and not rows.kept
    rows.away = False
    await here.look()
    assert "s" in here and rows.kept == {"s": 20.0}


async def test_what_would_have_ended_by_itself_is_forgotten() -> None:
    """With the next one that logs out."""
    rows, now = Rows(), [10.0]
    here = EndedSessions(rows, lambda: now[0])
    here.add("s", 20.0)
    await here.look()
    now[0] = 30.0
    here.add("t", 40.0)
    await here.look()
    assert "s" not in here and "t" in here


async def test_it_is_kept_at_once_while_it_runs() -> None:
    """Nobody waits for the next second."""
    rows = Rows()
    here = EndedSessions(rows, lambda: 10.0)
    running = asyncio.create_task(here.run())
    await asyncio.sleep(0)
    here.add("s", 20.0)
    async with asyncio.timeout(0.5):
        await rows.changed.wait()
    running.cancel()
    await asyncio.wait([running])
