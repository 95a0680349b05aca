"""Posting this replica's row, and reading the others', a few times a second.

While the database is away nothing is posted and nobody is waited for in vain: nothing moves then either.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from control_plane.push.views import SidecarView
from control_plane.registry.errors import StorageFullError, StoreUnavailableError
from control_plane.registry.replicas import ReplicaRow, ReplicaRows, ReplicaStore
from control_plane.replicas.everywhere import Everywhere
from control_plane.replicas.totals import Totals
from control_plane.replicas.wire import totals_bytes, totals_of, views_bytes, views_of

TICK_S: Final = 0.3
BEAT_S: Final = 1.0
REPORTS_EVERY_S: Final = 5.0
"""What sidecars count is told so often, as they do themselves; who they are and what they hold at once."""
FORGET_AFTER_S: Final = 60.0


class Here(Protocol):
    """The sidecars of this replica."""

    @property
    def moves(self) -> int:
        """Grows whenever something changes of who there is and what they hold."""

    @property
    def reports(self) -> int:
        """Grows with each report beside that."""

    def sidecars(self) -> list[SidecarView]:
        """Return every sidecar that is known."""

    def obeyed(self) -> bool:
        """Return whether every connected one holds what is in force."""


class Log(Protocol):
    """Where trouble is told."""

    def warning(self, event: str, **fields: object) -> object:
        """Warn."""


@dataclass(slots=True)
class _Posted:
    """What of this replica was posted last, and when."""

    moves: int = -1
    reports: int = -1
    reports_s: float = float("-inf")
    beat_s: float = float("-inf")


class Board:
    """Keeps this replica's row, and `everywhere` at what the others' say.

    Args:
        store: where the rows are.
        here: this replica's sidecars.
        totals: what they counted together.
        everywhere: learns of the others.
        me: this replica's id and name.
        in_force: returns the revision in force here.
        clock: monotonic, in seconds.
        log: where it is told that another replica cannot be understood.
    """

    def __init__(
        self,
        store: ReplicaStore,
        here: Here,
        totals: Totals,
        everywhere: Everywhere,
        *,
        me: tuple[str, str],
        in_force: Callable[[], int],
        clock: Callable[[], float],
        log: Log,
    ) -> None:
        self._store = store
        self._here = here
        self._totals = totals
        self._everywhere = everywhere
        self._in_force = in_force
        self._clock = clock
        self._log = log
        self._row = ReplicaRow(*me, beat=0, obeys=0)
        self._posted = _Posted()
        self._read: dict[str, tuple[int, int]] = {}
        self._unread: set[str] = set()

    def __repr__(self) -> str:
        return f"<Board {self._row.name} beat {self._row.beat}>"

    async def look(self) -> None:
        """Post what is new, and read what is."""
        async with self._store.shared() as rows:
            await self._post(rows)
            found = [row for row in await rows.replicas() if row.id != self._row.id]
            self._everywhere.looked(found)
            for row in found:
                await self._take(rows, row)
            now_s = self._clock()
            others = self._everywhere.others
            left = [one for one, other in others.items() if now_s - other.seen_s > FORGET_AFTER_S]
            await rows.delete_replicas(left)
        self._read = {one: editions for one, editions in self._read.items() if one in others}

    async def run(self) -> None:
        """Look a few times a second until cancelled; then take the row away."""
        try:
            while True:
                # The registry tells that the database is away.
                with contextlib.suppress(StoreUnavailableError, StorageFullError):
                    await self.look()
                await asyncio.sleep(TICK_S)
        finally:
            with contextlib.suppress(StoreUnavailableError, StorageFullError):
                async with self._store.shared() as rows:
                    await rows.delete_replicas([self._row.id])

    async def _post(self, rows: ReplicaRows) -> None:
        now_s, posted, row = self._clock(), self._posted, self._row
        moves, reports = self._here.moves, self._here.reports
        obeys = self._in_force() if self._here.obeyed() else 0
        told = now_s - posted.reports_s >= REPORTS_EVERY_S
        views = totals = None
        if moves != posted.moves or (told and reports != posted.reports):
            views = await asyncio.to_thread(views_bytes, tuple(self._here.sidecars()))
        if told and self._totals.changed:
            totals = await asyncio.to_thread(totals_bytes, self._totals.total())
        if views is None and totals is None and obeys == row.obeys and now_s - posted.beat_s < BEAT_S:
            return
        row = ReplicaRow(
            row.id,
            row.name,
            row.beat + 1,
            obeys,
            row.views_edition + (views is not None),
            row.totals_edition + (totals is not None),
        )
        known = await rows.put_replica(row, views=views, totals=totals)
        self._row = row
        self._posted = _Posted(
            moves if known or views is not None else -1,
            reports if views is not None else posted.reports,
            now_s if told else posted.reports_s,
            now_s,
        )

    async def _take(self, rows: ReplicaRows, row: ReplicaRow) -> None:
        views_edition, totals_edition = self._read.get(row.id, (0, 0))
        other = self._everywhere.others[row.id]
        try:
            if row.views_edition != views_edition:
                content = await rows.replica_views(row.id)
                other.views = await asyncio.to_thread(views_of, content)
            if row.totals_edition != totals_edition:
                content = await rows.replica_totals(row.id)
                self._everywhere.told(row.id, await asyncio.to_thread(totals_of, content))
        except ValueError as error:
            if row.id not in self._unread:
                # Of another build, while one replaces the other.
                self._log.warning(
                    "another replica's sidecars cannot be shown", replica=row.name, error=type(error).__name__
                )
            self._unread.add(row.id)
        self._read[row.id] = (row.views_edition, row.totals_edition)
