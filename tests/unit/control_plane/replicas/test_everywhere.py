"""The sidecars of all replicas, as one of them sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from control_plane.push.sidecars import Told
from control_plane.push.views import Released, SidecarView
from control_plane.registry.replicas import ReplicaRow
from control_plane.replicas.everywhere import DEAD_AFTER_S, STALE_AFTER_S, Everywhere
from ext_proc.contract.uses import Use
from tests.unit.control_plane.auth.clocks import Clock

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
REVISION = 7


def view(name: str, *, connected: bool = True, minutes: int = 0, replica: str = "here") -> SidecarView:
    """Return a sidecar."""
    at = NOON + timedelta(minutes=minutes)
    return SidecarView(name, "w", connected, at, serving=connected, in_force=connected, replica=replica)


class Fleet:
    """This replica's sidecars."""

    def __init__(self, *views: SidecarView) -> None:
        self.views = list(views)
        self.obey = True
        self.asked: list[bytes] = []

    def sidecars(self) -> list[SidecarView]:
        """Return them."""
        return self.views

    def listen(self, listener: Callable[[Told, Told], None]) -> None:
        """Tell at once, as a report would."""
        listener(Told(epoch="a"), Told(epoch="b"))

    def released(self) -> Sequence[Released]:
        """Return what one counted."""
        return [Released("s", "e", ())]

    def obeyed(self) -> bool:
        """Say so."""
        return self.obey

    def answering(self) -> frozenset[str]:
        """Return who can be asked."""
        return frozenset({"s"})

    def ask(self, names: Iterable[str], message: bytes) -> None:
        """Note it."""
        self.asked += [message for _ in names]


def row(name: str = "b", *, beat: int = 1, obeys: int = REVISION, totals: int = 0) -> ReplicaRow:
    """Return another replica's row."""
    return ReplicaRow(name, name, beat, obeys, totals_edition=totals)


@pytest.fixture
def clock() -> Clock:
    """Return a clock that stands still."""
    return Clock()


def seen(fleet: Fleet, clock: Clock, *, alone: bool = False) -> Everywhere:
    """Return all replicas' sidecars, as this one sees them."""
    return Everywhere(fleet, lambda: REVISION, clock.seconds, alone=alone)


def test_each_sidecar_is_shown_once_where_it_is_connected(clock: Clock) -> None:
    """Or was connected last; a replica that has left is forgotten."""
    everywhere = seen(Fleet(view("moved", connected=False, minutes=9), view("gone", connected=False)), clock)
    everywhere.looked([row()])
    everywhere.others["b"].views = (
        view("moved", replica="b"),
        view("gone", connected=False, minutes=1, replica="b"),
        view("other", replica="b"),
    )
    found = {one.id: (one.replica, one.connected) for one in everywhere.sidecars()}
    assert found == {"moved": ("b", True), "gone": ("b", False), "other": ("b", True)}
    everywhere.looked([])
    assert {one.id for one in everywhere.sidecars()} == {"moved", "gone"}


def test_all_obey_when_those_of_every_replica_do(clock: Clock) -> None:
    """A later revision than is known here is one that was obeyed, too."""
    fleet = Fleet()
    everywhere = seen(fleet, clock)
    assert not everywhere.obeyed()  # nobody has looked yet
    everywhere.looked([row("b"), row("c", obeys=REVISION - 1)])
    assert not everywhere.obeyed()
    everywhere.looked([row("b"), row("c", obeys=REVISION + 1)])
    assert everywhere.obeyed()
    fleet.obey = False
    assert not everywhere.obeyed()


def test_nobody_waits_for_a_dead_replica(clock: Clock) -> None:
    """Its sidecars are shown as gone; when it moves again, it is back."""
    everywhere = seen(Fleet(), clock)
    everywhere.looked([row(obeys=0)])
    everywhere.others["b"].views = (view("s", replica="b"),)
    clock.pass_s(DEAD_AFTER_S)
    everywhere.looked([row(obeys=0)])
    assert not everywhere.obeyed()
    clock.pass_s(1)
    everywhere.looked([row(obeys=0)])
    assert everywhere.obeyed()
    assert [(one.connected, one.in_force) for one in everywhere.sidecars()] == [(False, False)]
    everywhere.looked([row(beat=2, obeys=0)])
    assert not everywhere.obeyed()
    assert everywhere.sidecars()[0].connected


def test_without_news_of_the_others_nobody_knows(clock: Clock) -> None:
    """Unless there can be no others."""
    everywhere = seen(Fleet(), clock)
    everywhere.looked([])
    assert everywhere.obeyed()
    clock.pass_s(STALE_AFTER_S + 1)
    assert not everywhere.obeyed()
    assert seen(Fleet(), clock, alone=True).obeyed()


def test_listeners_hear_this_replicas_sidecars_and_each_others_sum(clock: Clock) -> None:
    """Of one that has counted before, the first sum is where it begins; of a new one all of it is news."""
    heard: list[tuple[str, str]] = []
    everywhere = seen(Fleet(), clock)
    everywhere.listen(lambda before, after: heard.append((before.epoch, after.epoch)))
    everywhere.looked([row("new"), row("old", totals=3)])
    for name in ("new", "old"):
        everywhere.told(name, Told(epoch=name))
    everywhere.looked([row("new", beat=2)])
    everywhere.told("new", Told(epoch="x"))
    assert heard == [("a", "b"), ("new", "new"), ("", "old"), ("new", "x")]


def test_what_the_sidecars_of_a_replica_use_goes_with_it(clock: Clock) -> None:
    """Whether it has left or died."""
    used: list[int] = []
    everywhere = seen(Fleet(), clock)
    everywhere.listen(lambda before, after: used.append(len(after.uses)))
    everywhere.looked([row("left"), row("dead")])
    for name in ("left", "dead"):
        everywhere.told(name, Told(epoch=name, uses={"model:m": Use(1)}))
    everywhere.looked([row("dead")])
    clock.pass_s(DEAD_AFTER_S + 1)
    for _ in range(2):
        everywhere.looked([row("dead")])
    assert used[1:] == [1, 1, 0, 0]


def test_questions_and_evidence_are_of_this_replicas_own(clock: Clock) -> None:
    """Each asks its own sidecars, and hands on what they counted."""
    fleet = Fleet()
    everywhere = seen(fleet, clock)
    everywhere.ask(everywhere.answering(), b"q")
    assert fleet.asked == [b"q"]
    assert [one.sidecar for one in everywhere.released()] == ["s"]
    assert repr(everywhere) == "<Everywhere 0 others>"
