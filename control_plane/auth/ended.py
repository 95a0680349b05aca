"""Sessions that were logged out before their time: remembered here, and in the database for all replicas."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from control_plane.registry.errors import StorageFullError, StoreUnavailableError

LOOK_EVERY_S: Final = 1.0


class EndedRows(Protocol):
    """The database's rows of them."""

    async def end_sessions(self, until_s: Mapping[str, float], now_s: float) -> None:
        """Keep these, each until its time, and forget those whose time is over."""

    async def ended_sessions(self) -> dict[str, float]:
        """Return all that are kept."""


class EndedStore(Protocol):
    """Where they are kept."""

    def shared(self) -> AbstractAsyncContextManager[EndedRows]:
        """Look at what replicas share, or change it."""


class EndedSessions:
    """All that were logged out, by their id, each until it would have ended by itself.

    Args:
        store: where they are kept.
        now: the time of day, in seconds since the epoch.
        every_s: how often it is looked what others have kept.
    """

    def __init__(self, store: EndedStore, now: Callable[[], float], every_s: float = LOOK_EVERY_S) -> None:
        self._store = store
        self._now = now
        self._every_s = every_s
        self._known: dict[str, float] = {}
        self._unsaved: dict[str, float] = {}
        self._wake = asyncio.Event()

    def __contains__(self, session_id: object) -> bool:
        """Say whether this one was logged out."""
        return session_id in self._known

    def __repr__(self) -> str:
        return f"<EndedSessions {len(self._known)}>"

    def add(self, session_id: str, until_s: float) -> None:
        """End one here at once, everywhere within a second or so."""
        self._known[session_id] = self._unsaved[session_id] = until_s
        self._wake.set()

    async def look(self) -> None:
        """Keep what is new, and learn what other replicas kept. While the database is away, later."""
        unsaved = dict(self._unsaved)
        with contextlib.suppress(StoreUnavailableError, StorageFullError):  # the registry has told of it
            async with self._store.shared() as rows:
                if unsaved:
                    await rows.end_sessions(unsaved, self._now())
                found = await rows.ended_sessions()
            for session_id in unsaved:
                self._unsaved.pop(session_id, None)
            self._known = {**found, **self._unsaved}

    async def run(self) -> None:
        """Look now and then until cancelled; at once after somebody has logged out."""
        while True:
            self._wake.clear()
            await self.look()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every_s):
                    await self._wake.wait()
