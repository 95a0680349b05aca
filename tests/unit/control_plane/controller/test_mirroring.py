"""The conversation with the control plane: told of changes, asked each second, healed after failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace

import orjson
import pytest

from control_plane.controller.mirror import MirrorError
from control_plane.controller.mirroring import TELL_EVERY_S, Mirroring
from control_plane.controller.resources import CustomResource, Key, SecretKey
from control_plane.controller.verdicts import Standing, Verdict, Verdicts
from control_plane.controller.view import View
from control_plane.kubernetes_client import KubernetesError
from tests.unit.control_plane.controller.cluster import Silence, until

A = CustomResource(Key("Pin", "a"), "u", 1, {"answer": "1"})
SECRET = SecretKey("s", "k")
USER = CustomResource(Key("Backend", "b"), "v", 1, {"credentials": {"secretRef": {"name": "s", "key": "k"}}})


class World:
    """A control plane that takes everything, custom resources, Secrets and a clock."""

    def __init__(self) -> None:
        self.resources: list[CustomResource] | None = [A]
        self.values: dict[SecretKey, str] = {}
        self.told: list[bytes] = []
        self.asked = 0
        self.revision = 0
        self.stands_in_the_way = False
        self.kept: tuple[str, ...] = ()
        self.log = Silence()
        self.behind = 0
        self.failing: list[Exception] = []
        self.time = 0.0
        self.holds = True
        self.views: list[View] = []
        self.counts: list[tuple[str, str]] = []
        self._standing = Standing(0)
        self.mirroring = Mirroring(
            self,
            resources=lambda: self.resources,
            secrets=self.read,
            publish=self.views.append,
            clock=lambda: self.time,
            holds=lambda: self.holds,
            log=self.log,
            count=lambda did, ended: self.counts.append((did, ended)),
        )

    async def tell(self, desired: bytes) -> Verdicts:
        """Take it."""
        if self.failing:
            raise self.failing.pop()
        self.told.append(desired)
        self.revision += 1
        documents = orjson.loads(desired)["documents"]
        keys = [Key(document["kind"], document["metadata"]["name"]) for document in documents]
        verdict = Verdict(False, "Conflict") if self.stands_in_the_way else Verdict(True, "Accepted")
        return Verdicts(self.revision, dict.fromkeys(keys, verdict), self.kept)

    async def standing(self) -> Standing:
        """Say that the newest is in force, sometimes late."""
        self.asked += 1
        if self.behind:
            self.behind -= 1
            return Standing(0)
        if self._standing.revision != self.revision:
            self._standing = Standing(self.revision)
        return self._standing

    async def read(self, wanted: Iterable[SecretKey]) -> Mapping[SecretKey, str]:
        """Return the values that there are."""
        return {secret: self.values[secret] for secret in wanted if secret in self.values}


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """Mirror, with waits that take no time worth mentioning."""
    for name in ("GATHER_S", "ASK_EVERY_S", "BEHIND_S"):
        monkeypatch.setattr(f"control_plane.controller.mirroring.{name}", 0.01)
    found = World()
    task = asyncio.create_task(found.mirroring.run())
    yield found
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_is_wanted_is_told_and_what_is_said_is_published(world: World) -> None:
    """Once: as long as nothing changes, it only asks."""
    await until(lambda: world.asked > 5)
    assert len(world.told) == 1
    assert [view.verdict(A) for view in world.views] == [Verdict(True, "Accepted")]


async def test_a_change_is_told_when_it_comes(world: World) -> None:
    """Its view says that it is of the new generation."""
    await until(lambda: len(world.views) == 1)
    changed = replace(A, generation=2, spec={"answer": "2"})
    world.resources = [changed]
    world.mirroring.wake()
    await until(lambda: len(world.views) == 2)
    assert world.views[-1].verdict(changed) == Verdict(True, "Accepted")


async def test_a_change_of_a_status_is_not_told(world: World) -> None:
    """Our own writes come back as changes; nothing goes over for them."""
    await until(lambda: len(world.views) == 1)
    world.resources = [replace(A, status={"conditions": []})]
    world.mirroring.wake()
    asked = world.asked
    await until(lambda: world.asked > asked + 3)
    assert len(world.told) == 1
    assert len(world.views) == 1


async def test_one_made_anew_with_the_same_spec_is_said_to_be_accepted(world: World) -> None:
    """Deleted and made again between two looks, nothing is to be told, yet its status is empty."""
    await until(lambda: len(world.views) == 1)
    anew = replace(A, uid="w")
    world.resources = [anew]
    world.mirroring.wake()
    await until(lambda: len(world.views) == 2)
    assert world.views[-1].verdict(anew) is not None
    assert len(world.told) == 1


async def test_nothing_is_told_before_everything_is_known() -> None:
    """What is not told of counts as deleted, so half of it must never go over."""
    world = World()
    world.resources = None
    task = asyncio.create_task(world.mirroring.run())
    await asyncio.sleep(0.02)
    assert not world.told
    assert not world.asked
    world.resources = []
    world.mirroring.wake()
    await until(lambda: len(world.told) == 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_everything_is_told_again_every_half_minute(world: World) -> None:
    """What somebody changed in the control plane meanwhile is put right."""
    await until(lambda: len(world.told) == 1)
    world.time += TELL_EVERY_S
    await until(lambda: len(world.told) == 2)
    assert world.told[0] == world.told[1]


async def test_what_is_deleted_but_still_named_is_said_when_it_changes(world: World) -> None:
    """Not with each telling: it may last for days."""
    await until(lambda: len(world.views) == 1)
    kept = [("Backend/b", "Model/m"), ("Model/m", "Backend/b"), ("Model/m",), (), ()]
    while kept:
        world.kept = kept.pop(0)
        world.time += TELL_EVERY_S
        await until(lambda: len(world.views) == 6 - len(kept))
    assert world.log.told == [
        ("deleted, but still named by others", {"documents": ["Backend/b", "Model/m"]}),
        ("deleted, but still named by others", {"documents": ["Model/m"]}),
        ("nothing deleted is named by others any more", {"documents": ["Model/m"]}),
    ]


async def test_a_rotated_secret_is_told(world: World) -> None:
    """Its value goes over as soon as it is known to have changed."""
    world.resources = [USER]
    world.values = {SECRET: "b2xk"}
    world.mirroring.wake()
    await until(lambda: any(b"b2xk" in body for body in world.told))
    world.values = {SECRET: "bmV3"}
    world.mirroring.wake()
    await until(lambda: b"bmV3" in world.told[-1])


@pytest.mark.parametrize(
    "error",
    [MirrorError("unreachable", "away"), MirrorError("http503", "later"), KubernetesError(500, "x", "y")],
    ids=str,
)
async def test_a_failure_is_tried_again(error: Exception) -> None:
    """Nothing is published until it was told."""
    world = World()
    world.failing = [error]
    task = asyncio.create_task(world.mirroring.run())
    await until(lambda: len(world.views) == 1)
    assert len(world.told) == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_answer_of_an_older_revision_is_waited_out(world: World) -> None:
    """Another replica may not have read the newest yet; its word must not pass for the new one."""
    await until(lambda: len(world.views) == 1)
    world.behind = 3
    world.resources = [replace(A, generation=2, spec={"answer": "2"})]
    world.mirroring.wake()
    await until(lambda: len(world.views) == 2)
    assert world.views[-1].standing.revision == 2
    assert ("ask", "ok") in world.counts


async def test_one_that_was_frozen_tells_nothing_old() -> None:
    """Its Lease has run out by its own clock; should it turn out to lead still, nothing is forgotten."""
    world = World()
    world.holds = False
    task = asyncio.create_task(world.mirroring.run())
    world.mirroring.wake()
    await asyncio.sleep(0.3)
    assert not world.told
    world.holds = True
    await until(lambda: len(world.told) == 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_secret_that_is_not_there_is_said(world: World) -> None:
    """Until it comes, whatever else the control plane says."""
    world.resources = [USER]
    world.mirroring.wake()
    await until(lambda: any(view.verdict(USER) is not None for view in world.views))
    said = world.views[-1].verdict(USER)
    assert said is not None
    assert said.unresolved is not None
    world.values = {SECRET: "b2xk"}
    world.mirroring.wake()
    await until(lambda: world.views[-1].verdict(USER) == Verdict(True, "Accepted"))


async def test_what_stood_in_the_way_and_went_is_noticed_soon(world: World) -> None:
    """Another's change is a new revision; with nothing refused it is none of our business."""
    await until(lambda: len(world.views) == 1)
    world.revision += 1
    await until(lambda: len(world.views) == 2)
    assert len(world.told) == 1
    world.stands_in_the_way = True
    world.time += TELL_EVERY_S
    await until(lambda: len(world.told) == 2)
    world.stands_in_the_way = False
    world.revision += 1
    await until(lambda: len(world.told) == 3)
    await until(lambda: world.views[-1].verdict(A) == Verdict(True, "Accepted"))
