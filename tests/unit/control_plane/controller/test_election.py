"""One leads at a time, and another soon after it is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from control_plane.controller import election as module
from control_plane.controller.election import NAME, Election
from control_plane.kubernetes_client import KubernetesError
from tests.unit.control_plane.controller.cluster import LEASES, Cluster, Silence, until

HURRY = 100.0
"""How much quicker than real the clocks run."""


class Replica:
    """One of several that want to lead."""

    def __init__(self, api: Any, identity: str) -> None:
        loop = asyncio.get_running_loop()
        self.leading = 0
        self.times = 0
        self.election = Election(
            api,
            "mesh",
            identity,
            clock=lambda: loop.time() * HURRY,
            now=lambda: datetime.now(UTC),
            log=Silence(),
        )
        self.task = asyncio.create_task(self.election.run(self._lead))

    async def _lead(self) -> None:
        self.leading += 1
        self.times += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.leading -= 1

    async def stop(self) -> None:
        """End it as a signal does."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class Cut:
    """A replica's own way to the cluster, which can be cut."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.is_cut = False

    async def call(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        """Pass it on, or fail."""
        if self.is_cut:
            raise KubernetesError(0, "Unreachable", "cut")
        return await self._cluster.call(method, path, **more)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Return a cluster, with waits as short as its clocks are quick."""
    for name in ("LOOK_EVERY_S", "RENEW_EVERY_S", "RETRY_S"):
        monkeypatch.setattr(module, name, getattr(module, name) / HURRY)
    return Cluster()


@pytest.fixture
async def start(cluster: Cluster) -> AsyncIterator[Callable[..., Replica]]:
    """Start replicas, and stop them."""
    replicas: list[Replica] = []

    def one(identity: str, api: Any = None) -> Replica:
        replicas.append(Replica(api or cluster, identity))
        return replicas[-1]

    yield one
    for replica in replicas:
        await replica.stop()


def holder(cluster: Cluster) -> str:
    """Return who holds the Lease."""
    return str(cluster.get(LEASES, NAME)["spec"]["holderIdentity"])


async def test_one_of_two_leads(cluster: Cluster, start: Callable[..., Replica]) -> None:
    """The other one waits, for as long as the first renews."""
    one = start("one")
    await until(lambda: one.leading == 1)
    two = start("two")
    renewed = cluster.get(LEASES, NAME)["spec"]["renewTime"]
    await until(lambda: cluster.get(LEASES, NAME)["spec"]["renewTime"] != renewed)
    await asyncio.sleep(20 / HURRY)
    assert (one.leading, two.leading) == (1, 0)
    assert holder(cluster) == "one"


async def test_one_that_stops_lets_go(cluster: Cluster, start: Callable[..., Replica]) -> None:
    """Whoever waits need not wait for the Lease to run out."""
    one = start("one")
    await until(lambda: one.leading == 1)
    await one.stop()
    assert one.leading == 0
    assert holder(cluster) == ""
    two = start("two")
    await until(lambda: two.leading == 1)


async def test_one_that_dies_is_followed_when_its_lease_runs_out(
    cluster: Cluster, start: Callable[..., Replica]
) -> None:
    """Nobody let go: another sees the Lease unchanged for its duration."""
    cluster.put(
        LEASES, NAME, spec={"holderIdentity": "dead", "leaseDurationSeconds": 15, "renewTime": "then"}
    )
    two = start("two")
    await asyncio.sleep(5 / HURRY)
    assert two.leading == 0
    await until(lambda: two.leading == 1)
    assert cluster.get(LEASES, NAME)["spec"]["leaseTransitions"] == 1


async def test_one_that_cannot_renew_stops_before_another_begins(
    cluster: Cluster, start: Callable[..., Replica]
) -> None:
    """There are never two, even when the first one still runs."""
    way = Cut(cluster)
    one = start("one", way)
    await until(lambda: one.leading == 1)
    two = start("two")
    way.is_cut = True
    most = 0
    async with asyncio.timeout(5):
        while not two.leading:
            most = max(most, one.leading + two.leading)
            await asyncio.sleep(0.001)
    assert most == 1
    assert one.leading == 0
    way.is_cut = False
    await two.stop()
    await until(lambda: one.leading == 1)


async def test_a_server_that_is_away_for_a_moment_changes_nothing(
    cluster: Cluster, start: Callable[..., Replica]
) -> None:
    """One failed renewal is tried again before the time is up."""
    one = start("one")
    await until(lambda: one.leading == 1)
    failing = [KubernetesError(500, "InternalError", "x")]
    cluster.refuse = lambda method, path: failing.pop() if failing and method == "PATCH" else None
    await until(lambda: not failing)
    renewed = cluster.get(LEASES, NAME)["spec"]["renewTime"]
    await until(lambda: cluster.get(LEASES, NAME)["spec"]["renewTime"] != renewed)
    assert (one.leading, one.times) == (1, 1)


async def test_anothers_write_to_a_held_lease_is_no_loss(
    cluster: Cluster, start: Callable[..., Replica]
) -> None:
    """A label, say: the version differs, the holder does not."""
    one = start("one")
    await until(lambda: one.leading == 1)
    cluster.put(LEASES, NAME, labels={"x": "y"})
    renewed = cluster.get(LEASES, NAME)["spec"]["renewTime"]
    await until(lambda: cluster.get(LEASES, NAME)["spec"]["renewTime"] != renewed)
    assert one.times == 1


async def test_a_lease_that_another_took_is_lost_at_once(
    cluster: Cluster, start: Callable[..., Replica]
) -> None:
    """It stops leading, and leaves the Lease to its holder."""
    one = start("one")
    await until(lambda: one.leading == 1)
    spec = cluster.get(LEASES, NAME)["spec"]
    cluster.put(LEASES, NAME, spec={**spec, "holderIdentity": "two"})
    await until(lambda: one.leading == 0)
    assert holder(cluster) == "two"


async def test_a_failure_that_nobody_foresaw_ends_it(cluster: Cluster) -> None:
    """The process is to begin anew; the Lease is free for others."""

    async def broken() -> None:
        raise LookupError("a bug")

    election = Election(
        cluster, "mesh", "one", clock=lambda: 0.0, now=lambda: datetime.now(UTC), log=Silence()
    )
    with pytest.raises(LookupError):
        await election.run(broken)
    assert holder(cluster) == ""


async def test_whoever_could_not_renew_knows_that_it_holds_nothing(
    cluster: Cluster, start: Callable[..., Replica]
) -> None:
    """By its own clock, before anybody tells it: it may have been frozen."""
    one = start("one")
    assert not one.election.holds
    await until(lambda: one.leading == 1)
    assert one.election.holds
    cluster.refuse = lambda method, path: KubernetesError(0, "Unreachable", "x")
    await until(lambda: not one.election.holds)
