"""Replicas that post what they know on one database, and read each other's."""

from __future__ import annotations

from dataclasses import replace

import structlog
from structlog.testing import capture_logs

from control_plane.push.sidecars import Told
from control_plane.push.views import SidecarView, VersionStatistics
from control_plane.replicas.board import BEAT_S, FORGET_AFTER_S, REPORTS_EVERY_S, Board
from control_plane.replicas.everywhere import Everywhere
from control_plane.replicas.totals import Totals
from control_plane.store.sql_store import SqlStore
from tests.unit.control_plane.auth.clocks import Clock
from tests.unit.control_plane.replicas.test_everywhere import NOON, Fleet

REVISION = 7


class Counting(Fleet):
    """Sidecars whose moves are counted."""

    moves = 0
    reports = 0


class Replica:
    """One replica with one sidecar."""

    def __init__(self, name: str, store: SqlStore, clock: Clock) -> None:
        self.fleet = Counting(SidecarView(f"of-{name}", "w", connected=True, connected_at=NOON, replica=name))
        self.totals = Totals(name)
        self.revision = REVISION
        self.everywhere = Everywhere(self.fleet, lambda: self.revision, clock.seconds, alone=False)
        self.board = Board(
            store,
            self.fleet,
            self.totals,
            self.everywhere,
            me=(name, name),
            in_force=lambda: self.revision,
            clock=clock.seconds,
            log=structlog.get_logger(),
        )

    def seen(self) -> list[str]:
        """Return which sidecars it shows as connected."""
        return sorted(one.id for one in self.everywhere.sidecars() if one.connected)


async def test_every_replica_shows_the_sidecars_of_all(store: SqlStore) -> None:
    """A move at once; and that a revision is obeyed only when it is so everywhere."""
    clock = Clock()
    one, other = Replica("one", store, clock), Replica("two", store, clock)
    for replica in (one, other, one):
        await replica.board.look()
    assert one.seen() == other.seen() == ["of-one", "of-two"]
    assert one.everywhere.obeyed() and other.everywhere.obeyed()
    other.fleet.obey = False
    other.fleet.views[0] = replace(other.fleet.views[0], nack="no")
    other.fleet.moves += 1
    await other.board.look()
    await one.board.look()
    assert not one.everywhere.obeyed()
    assert [view.nack for view in one.everywhere.sidecars()] == [None, "no"]
    one.revision = REVISION + 1
    other.fleet.obey = True
    await other.board.look()
    await one.board.look()
    assert not one.everywhere.obeyed()  # the other has not heard of it
    other.revision = REVISION + 1
    await other.board.look()
    await one.board.look()
    assert one.everywhere.obeyed()


async def test_sums_are_told_now_and_then(store: SqlStore) -> None:
    """From where somebody begins to listen; a row that has nothing new only beats."""
    clock = Clock()
    one, other = Replica("one", store, clock), Replica("two", store, clock)
    heard: list[int] = []
    one.everywhere.listen(lambda before, after: heard.extend(item.calls for item in after.versions))
    heard.clear()
    for calls in (0, 4, 9):
        version = VersionStatistics("m", "v", calls=calls + 1)
        other.totals.told(
            Told(epoch="e", versions=(replace(version, calls=0),)), Told(epoch="e", versions=(version,))
        )
        await other.board.look()
        await one.board.look()
        clock.pass_s(REPORTS_EVERY_S / 2)
        await other.board.look()
        await one.board.look()
        clock.pass_s(REPORTS_EVERY_S / 2)
    assert heard == [1, 6, 16]


async def test_a_killed_replica_is_forgotten_and_comes_back_whole(store: SqlStore) -> None:
    """Nobody waits for it, its row goes in the end; frozen only, it writes all of it anew."""
    clock = Clock()
    one, other = Replica("one", store, clock), Replica("two", store, clock)
    await other.board.look()
    await one.board.look()
    other.fleet.obey = False
    for _ in range(int(FORGET_AFTER_S / BEAT_S) + 2):
        clock.pass_s(BEAT_S)
        await one.board.look()
    assert one.seen() == ["of-one"]
    await one.board.look()
    assert not one.everywhere.others
    for _ in range(2):
        clock.pass_s(BEAT_S)
        await other.board.look()
    await one.board.look()
    assert one.seen() == ["of-one", "of-two"]


async def test_what_another_build_posts_keeps_nobody_from_the_rest(store: SqlStore) -> None:
    """It is said once, and what was known stays."""
    clock = Clock()
    one, other = Replica("one", store, clock), Replica("two", store, clock)
    await other.board.look()
    async with store.shared() as rows:
        (row,) = await rows.replicas()
        await rows.put_replica(replace(row, beat=99, views_edition=99), views=b"in another way")
    with capture_logs() as told:
        for _ in range(2):
            await one.board.look()
    assert [line["replica"] for line in told] == ["two"]
    assert one.seen() == ["of-one"]
