"""The sidecars of all replicas: this one's as they are, the others' as those told last (no I/O).

A replica whose row stands still for `DEAD_AFTER_S` is taken for dead: nobody waits for its sidecars, which
connect elsewhere, and they are shown as gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from control_plane.push.sidecars import Told
from control_plane.push.views import Released, SidecarView
from control_plane.registry.replicas import ReplicaRow

DEAD_AFTER_S: Final = 10.0
STALE_AFTER_S: Final = 5.0
"""So long after the last look at the others nobody knows whether they obey."""

Listener = Callable[[Told, Told], None]


class Here(Protocol):
    """The sidecars of this replica."""

    def sidecars(self) -> list[SidecarView]:
        """Return every sidecar that is connected or not long gone."""

    def listen(self, listener: Listener) -> None:
        """Have `listener` told of every report."""

    def released(self) -> Sequence[Released]:
        """Return what each counted of Releases."""

    def obeyed(self) -> bool:
        """Return whether every connected one holds what is in force."""

    def answering(self) -> frozenset[str]:
        """Return the sidecars that understand questions and are connected."""

    def ask(self, names: Iterable[str], message: bytes) -> None:
        """Have each of these sent a message that asks it something."""


@dataclass(slots=True)
class Other:
    """Another replica. `seen_s` is when its row moved last, on this replica's clock."""

    row: ReplicaRow
    seen_s: float
    views: tuple[SidecarView, ...] = ()
    total: Told = field(default_factory=Told)
    dead: bool = False

    def shown(self) -> tuple[SidecarView, ...]:
        """Return its sidecars; a dead one's are gone."""
        if not self.dead:
            return self.views
        return tuple(replace(one, connected=False, serving=False, in_force=False) for one in self.views)


class Everywhere:
    """The sidecars of all replicas, in place of this one's.

    Args:
        here: this replica's.
        in_force: returns the revision in force, as far as this replica knows.
        clock: monotonic, in seconds.
        alone: there can be no other replica.
    """

    def __init__(
        self, here: Here, in_force: Callable[[], int], clock: Callable[[], float], *, alone: bool
    ) -> None:
        self._here = here
        self._in_force = in_force
        self._clock = clock
        self._listeners: list[Listener] = []
        self._looked_s = float("-inf")
        self._alone = alone
        self.others: dict[str, Other] = {}

    def __repr__(self) -> str:
        return f"<Everywhere {len(self.others)} others>"

    def sidecars(self) -> list[SidecarView]:
        """Return every sidecar that is connected to some replica or not long gone; each once."""
        here = self._here.sidecars()
        if not self.others:
            return here
        found = {one.id: one for one in here}
        for other in self.others.values():
            for view in other.shown():
                known = found.get(view.id)
                if known is None or _rank(view) > _rank(known):
                    found[view.id] = view
        return list(found.values())

    def listen(self, listener: Listener) -> None:
        """Have `listener` told of every report here, and of what all sidecars of another replica counted."""
        self._here.listen(listener)
        self._listeners.append(listener)

    def released(self) -> Sequence[Released]:
        """Return what each sidecar of this replica counted of Releases: each replica hands on its own."""
        return self._here.released()

    def answering(self) -> frozenset[str]:
        """Return the sidecars that can be asked something: those of this replica."""
        return self._here.answering()

    def ask(self, names: Iterable[str], message: bytes) -> None:
        """Have each of these sent a message that asks it something."""
        self._here.ask(names, message)

    def obeyed(self) -> bool:
        """Return whether every sidecar that is connected to any replica holds what is in force."""
        if not self._here.obeyed():
            return False
        if self._alone:
            return True
        if self._clock() - self._looked_s > STALE_AFTER_S:
            return False
        wanted = self._in_force()
        return all(other.dead or other.row.obeys >= wanted for other in self.others.values())

    # What the others told.

    def looked(self, rows: Sequence[ReplicaRow]) -> None:
        """Take in the rows of the others; those that are missing have left."""
        now_s = self._clock()
        self._looked_s = now_s
        known = self.others
        self.others = {}
        for row in rows:
            other = known.get(row.id) or _met(row, now_s)
            if other.row.beat != row.beat:
                other.seen_s = now_s
            other.row, other.dead = row, now_s - other.seen_s > DEAD_AFTER_S
            self.others[row.id] = other
        for name, other in known.items():
            if other.total.uses and (other.dead or name not in self.others):
                self._tell(other, replace(other.total, uses={}))

    def told(self, replica_id: str, total: Told) -> None:
        """Take in what the sidecars of another replica counted together."""
        self._tell(self.others[replica_id], total)

    def _tell(self, other: Other, total: Told) -> None:
        before, other.total = other.total, total
        for listener in self._listeners:
            listener(before, total)


def _met(row: ReplicaRow, now_s: float) -> Other:
    """Return a replica that was not known; of one that has told no sum yet, all that it will is news."""
    return Other(row, now_s, total=Told(epoch=row.id if not row.totals_edition else ""))


def _rank(view: SidecarView) -> tuple[bool, float]:
    return view.connected, view.connected_at.timestamp()
