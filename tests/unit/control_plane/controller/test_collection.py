"""A collection stays current whatever ends its watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from control_plane.controller.collection import Collection
from control_plane.controller.resources import wants
from control_plane.kubernetes_client import KubernetesError
from tests.unit.control_plane.controller.cluster import Cluster, Silence, path_of, until

PINS = path_of("Pin")


class Followed:
    """A collection that is followed, and what it told."""

    def __init__(self, cluster: Cluster) -> None:
        self.changes = 0
        self.broken: list[str] = []
        self.log = Silence()
        self.collection = Collection(
            cluster, PINS, changed=self._changed, log=self.log, broken=self.broken.append, wants=wants
        )

    def _changed(self) -> None:
        self.changes += 1

    @property
    def names(self) -> set[str]:
        """The names that are known."""
        return set(self.collection.objects)


@asynccontextmanager
async def followed(cluster: Cluster) -> AsyncIterator[Followed]:
    """Follow the Pins of `cluster`."""
    found = Followed(cluster)
    task = asyncio.create_task(found.collection.follow())
    try:
        await until(lambda: ("WATCH", PINS) in cluster.calls)
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_comes_changes_and_goes_is_known() -> None:
    """From the list and from the watch alike."""
    cluster = Cluster()
    cluster.put(PINS, "a", spec={"answer": "1"})
    async with followed(cluster) as found:
        assert found.collection.listed
        assert found.names == {"a"}
        cluster.put(PINS, "b", spec={})
        await until(lambda: found.names == {"a", "b"})
        cluster.put(PINS, "a", spec={"answer": "2"})
        await until(lambda: found.collection.objects["a"]["spec"] == {"answer": "2"})
        cluster.delete(PINS, "a")
        await until(lambda: found.names == {"b"})


async def test_a_long_list_comes_in_pages() -> None:
    """Nothing is taken for deleted that stands on the next page."""
    cluster = Cluster()
    cluster.page = 2
    for name in "abcde":
        cluster.put(PINS, name, spec={})
    async with followed(cluster) as found:
        assert found.names == set("abcde")


async def test_a_watch_that_ends_in_order_goes_on_without_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server ends each after a while."""
    cluster = Cluster()
    async with followed(cluster) as found:
        cluster.end_watches()
        cluster.put(PINS, "a", spec={})
        await until(lambda: found.names == {"a"})
        assert cluster.calls.count(("GET", PINS)) == 1


@pytest.mark.parametrize(
    "error",
    [
        KubernetesError(0, "Unreachable", "broken off"),
        KubernetesError(0, "Timeout", "silent"),
        KubernetesError(500, "InternalError", "etcd"),
        KubernetesError(410, "Expired", "too old"),
    ],
    ids=lambda error: error.reason,
)
async def test_any_other_end_leads_to_a_new_list(error: KubernetesError) -> None:
    """What happened meanwhile is not missed, deletions neither."""
    cluster = Cluster()
    cluster.put(PINS, "a", spec={})
    async with followed(cluster) as found:
        cluster.end_watches(error)
        cluster.delete(PINS, "a")
        cluster.put(PINS, "b", spec={})
        cluster.forget()
        await until(lambda: found.names == {"b"})
        assert len(found.broken) == 1
        assert cluster.calls.count(("GET", PINS)) == 2


async def test_a_server_that_is_away_is_asked_again_and_told_of_once() -> None:
    """What was known stays known; one line says that it cannot be followed."""
    cluster = Cluster()
    cluster.put(PINS, "a", spec={})
    async with followed(cluster) as found:
        refused = 0

        def refuse(method: str, path: str) -> KubernetesError:
            nonlocal refused
            refused += 1
            return KubernetesError(0, "Unreachable", f"{method} {path}")

        cluster.refuse = refuse
        cluster.end_watches(KubernetesError(0, "Unreachable", "gone"))
        await until(lambda: refused >= 2)
        assert found.names == {"a"}
        assert len(found.log.told) == 1
        cluster.refuse = lambda _method, _path: None
        cluster.put(PINS, "b", spec={})
        await until(lambda: found.names == {"a", "b"})


async def test_nothing_is_listed_before_a_list_was_whole() -> None:
    """A page that failed is no list: what stands on it would count as deleted."""
    cluster = Cluster()
    cluster.page = 1
    cluster.put(PINS, "a", spec={})
    cluster.put(PINS, "b", spec={})
    asked = 0

    def second_fails(method: str, path: str) -> KubernetesError | None:
        nonlocal asked
        asked += 1
        return KubernetesError(500, "InternalError", "x") if asked == 2 else None

    cluster.refuse = second_fails
    found = Followed(cluster)
    task = asyncio.create_task(found.collection.follow())
    await until(lambda: asked == 2)
    assert not found.collection.listed
    await until(lambda: found.collection.listed)
    assert found.names == {"a", "b"}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_own_write_is_known_at_once_unless_something_newer_is() -> None:
    """So that the same is not written again before the watch tells of it."""
    cluster = Cluster()
    cluster.put(PINS, "a", spec={})
    async with followed(cluster) as found:
        before = found.collection.objects["a"]
        after = {**before, "status": {"x": 1}}
        found.collection.learn(before, after)
        assert found.collection.objects["a"] is after
        found.collection.learn(before, {**before, "status": {"x": 0}})
        assert found.collection.objects["a"] is after


async def test_a_change_that_does_not_matter_wakes_nobody() -> None:
    """A status is known, but it is nothing that is wanted."""
    cluster = Cluster()
    cluster.put(PINS, "a", spec={})
    async with followed(cluster) as found:
        before = found.changes
        cluster.put(PINS, "a", status={"x": 1})
        await until(lambda: "status" in found.collection.objects["a"])
        assert found.changes == before


async def test_a_server_that_calls_everything_expired_is_not_asked_in_a_loop() -> None:
    """Each new list waits a little longer than the one before."""
    cluster = Cluster()
    cluster.refuse = lambda method, path: KubernetesError(410, "Expired", "x") if method == "WATCH" else None
    async with followed(cluster):
        await asyncio.sleep(0.5)
        assert cluster.calls.count(("GET", PINS)) <= 5
