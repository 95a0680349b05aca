"""Secrets: only those that are named are read, and again when they change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from control_plane.controller.resources import SecretKey
from control_plane.controller.secrets import Secrets
from control_plane.kubernetes_client import KubernetesError
from tests.unit.control_plane.controller.cluster import SECRETS, Cluster, Silence, until

WANTED = {SecretKey("provider", "key"), SecretKey("provider", "other"), SecretKey("missing", "key")}


class Watched:
    """A cluster's Secrets, followed."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.put(SECRETS, "provider", data={"key": "b2xk", "unused": "eA=="})
        self.cluster.put(SECRETS, "private", data={"key": "cHJpdmF0ZQ=="})
        self.changes = 0
        self.secrets = Secrets(self.cluster, "mesh", changed=self._changed, log=Silence())

    def _changed(self) -> None:
        self.changes += 1

    @property
    def read(self) -> list[str]:
        """The names of the Secrets that were read, in order."""
        one = f"{SECRETS}/"
        return [path.removeprefix(one) for method, path in self.cluster.calls if path.startswith(one)]


@pytest.fixture
async def watched() -> AsyncIterator[Watched]:
    """Follow the Secrets of a cluster with two of them."""
    found = Watched()
    task = asyncio.create_task(found.secrets.follow())
    await until(lambda: ("WATCH", SECRETS) in found.cluster.calls)
    found.changes = 0
    yield found
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_only_what_is_named_and_there_is_read(watched: Watched) -> None:
    """A name that is not there costs no call; one that nobody names is never read."""
    assert await watched.secrets.values(WANTED) == {SecretKey("provider", "key"): "b2xk"}
    assert watched.read == ["provider"]


async def test_the_list_is_of_metadata_only(watched: Watched) -> None:
    """Contents of Secrets that nobody names never come over the wire."""
    (accepted,) = watched.cluster.accepted[SECRETS]
    assert "as=PartialObjectMetadataList" in accepted


async def test_what_is_known_is_not_read_again(watched: Watched) -> None:
    """Only a new version leads to a new reading."""
    await watched.secrets.values(WANTED)
    await watched.secrets.values(WANTED)
    assert watched.read == ["provider"]


async def test_a_rotated_secret_is_told_and_read(watched: Watched) -> None:
    """A change of one that is named wakes the controller."""
    await watched.secrets.values(WANTED)
    watched.cluster.put(SECRETS, "provider", data={"key": "bmV3"})
    await until(lambda: watched.changes > 0)
    assert await watched.secrets.values(WANTED) == {SecretKey("provider", "key"): "bmV3"}


async def test_others_secrets_wake_nobody(watched: Watched) -> None:
    """A namespace may have Secrets that change by the minute."""
    await watched.secrets.values(WANTED)
    before = watched.changes
    watched.cluster.put(SECRETS, "private", data={"key": "eA=="})
    watched.cluster.put(SECRETS, "missing", data={"key": "eA=="})
    await until(lambda: watched.changes > before)
    assert watched.changes == before + 1


async def test_a_deleted_secret_is_no_more(watched: Watched) -> None:
    """Its values are forgotten, and whoever names it is told of."""
    await watched.secrets.values(WANTED)
    watched.cluster.delete(SECRETS, "provider")
    await until(lambda: watched.changes > 0)
    assert await watched.secrets.values(WANTED) == {}


async def test_a_secret_that_cannot_be_read_is_no_missing_one(watched: Watched) -> None:
    """Otherwise a provider would lose its key while the API server has trouble."""
    watched.cluster.refuse = lambda method, path: (
        KubernetesError(500, "InternalError", "x") if path.endswith("/provider") else None
    )
    with pytest.raises(KubernetesError):
        await watched.secrets.values(WANTED)


async def test_one_that_vanishes_while_it_is_read_is_missing(watched: Watched) -> None:
    """The watch tells of it only later."""
    watched.cluster.refuse = lambda method, path: (
        KubernetesError(404, "NotFound", "x") if path.endswith("/provider") else None
    )
    assert await watched.secrets.values(WANTED) == {}


async def test_secrets_that_may_not_be_listed_are_told_of() -> None:
    """Whoever waits for them need not wait for ever: most resources name none."""
    cluster, changes = Cluster(), []
    cluster.refuse = lambda method, path: KubernetesError(403, "Forbidden", "no")
    secrets = Secrets(cluster, "mesh", changed=lambda: changes.append(1), log=Silence())
    assert not secrets.tried
    task = asyncio.create_task(secrets.follow())
    await until(lambda: bool(changes))
    assert secrets.tried
    assert not secrets.listed
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
