"""What replicas share beside the documents."""

from __future__ import annotations

from control_plane.registry.replicas import ReplicaRow
from control_plane.store.sql_store import SqlStore


async def test_a_replica_is_kept_as_it_wrote_itself_last(store: SqlStore) -> None:
    """What it does not write again stays; what is unknown is nothing."""
    first = ReplicaRow("a", "one", beat=1, obeys=3)
    async with store.shared() as rows:
        assert not await rows.put_replica(first)
        await rows.put_replica(ReplicaRow("b", "two", 1, 0, 1, 1), views=b"v", totals=b"t")
    second = ReplicaRow("b", "two", beat=2, obeys=4, views_edition=2, totals_edition=1)
    async with store.shared() as rows:
        assert await rows.put_replica(second, views=b"w")
    async with store.shared() as rows:
        assert await rows.replicas() == [first, second]
        assert [await rows.replica_views(one) for one in ("a", "b", "c")] == [b"", b"w", b""]
        assert await rows.replica_totals("b") == b"t"
        await rows.delete_replicas([])
        await rows.delete_replicas(["a", "c"])
        assert await rows.replicas() == [second]


async def test_ended_sessions_are_kept_until_their_time(store: SqlStore) -> None:
    """Again is nothing, and those whose time is over go with the next one."""
    async with store.shared() as rows:
        await rows.end_sessions({"s": 20.0, "t": 30.0}, 10.0)
        await rows.end_sessions({"s": 20.0}, 10.0)
        assert await rows.ended_sessions() == {"s": 20.0, "t": 30.0}
        await rows.end_sessions({"u": 40.0, "old": 5.0}, 25.0)
        assert await rows.ended_sessions() == {"t": 30.0, "u": 40.0}
