"""What webhooks are told: written down with the move, taken by one replica, kept until it was told."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from control_plane.registry.bulletins import LEASE_S
from control_plane.registry.errors import InUseError
from control_plane.registry.ports import Bulletin
from control_plane.registry.registry import Registry
from control_plane.releases.counts import Both, Counts
from control_plane.releases.machine import Action
from tests.harness.registries import ACTOR, SetClock, backend, raw

VERSIONS = [{"name": "old", "backend": "b"}, {"name": "new", "backend": "b", "weight": 0}]
SIGNED = {"url": "http://h/signed", "secret": {"secretRef": {"name": "s", "key": "k"}}}
SPEC = {"model": "m", "from": "old", "to": "new", "steps": [5, 50], "notify": ["http://h/plain", SIGNED]}
BAD = Both(Counts(95, duration={70: 95}), Counts(25, 20, duration={70: 5}))


@pytest.fixture
async def registry(registry: Registry) -> Registry:
    """A registry with a Release that two webhooks are told of, just applied."""
    model = raw("Model", "m", versions=VERSIONS)
    await registry.apply([backend(), model, raw("Release", "r", **SPEC)], ACTOR)
    return registry


async def told(registry: Registry) -> list[tuple[str, str]]:
    """Take and forget everything that is due: the path of each webhook with what it was told."""
    found: list[tuple[str, str]] = []
    while taken := (await registry.outbox.take(100)).bulletins:
        for bulletin in taken:
            url = json.loads(bulletin.target)["url"]
            found.append((url.removeprefix("http://h/"), json.loads(bulletin.body)["type"]))
            await registry.outbox.done(bulletin)
    return found


async def take(registry: Registry, limit: int = 100) -> tuple[Bulletin, ...]:
    """Take what is due."""
    return (await registry.outbox.take(limit)).bulletins


async def test_each_move_is_told_to_each_webhook_in_order(registry: Registry) -> None:
    """From its start to its end, by whoever moved it."""
    await registry.look_at_releases({}, obeyed=True)
    for action in (Action.PAUSE, Action.RESUME, Action.PROMOTE):
        await registry.act_on_release("r", action, ACTOR)
    for _ in range(3):
        await registry.look_at_releases({"r": BAD}, obeyed=True)
    found = await told(registry)
    for webhook in ("plain", "signed"):
        assert [event for name, event in found if name == webhook] == [
            "release.started",
            "release.paused",
            "release.resumed",
            "release.step",
            "release.rolling-back",
            "release.rolled-back",
        ]


async def test_a_rollback_is_told_with_its_numbers(registry: Registry) -> None:
    """Which gate, and how far each version was from it."""
    await registry.look_at_releases({}, obeyed=True)
    await told(registry)
    await registry.look_at_releases({"r": BAD}, obeyed=True)
    bulletin, _ = await take(registry)
    data = json.loads(bulletin.body)["data"]
    assert data["new"]["requests"] == 25
    assert [gate["new"] for gate in data["gates"] if gate["outcome"] == "fail"] == [0.8]
    assert (data["release"], data["from"], data["to"]) == ("r", "old", "new")


async def test_what_is_taken_is_nobody_elses_until_its_lease_ends(
    registry: Registry, replica: Callable[[], Registry], clock: SetClock
) -> None:
    """A replica that dies leaves it to the others; the message's id stays the same."""
    other = replica()
    await other.open()
    first = await take(registry, 1)
    second = await take(other)
    assert {item.id for item in first}.isdisjoint(item.id for item in second)
    assert len(first) == len(second) == 1
    waiting = await other.outbox.take(100)
    assert (waiting.bulletins, waiting.more_at is not None) == ((), True)
    clock.move(seconds=LEASE_S)
    again = await take(other)
    assert {item.id for item in again} == {item.id for item in (*first, *second)}
    assert {item.attempts for item in again} == {1}


async def test_what_is_put_off_holds_back_its_own_webhook_only(registry: Registry, clock: SetClock) -> None:
    """Each webhook hears in order."""
    plain, signed = await take(registry)
    await registry.outbox.put_off(plain, 60.0)
    await registry.outbox.done(signed)
    await registry.act_on_release("r", Action.PROMOTE, ACTOR)
    assert await told(registry) == [("signed", "release.step")]
    clock.move(seconds=60)
    assert await told(registry) == [("plain", "release.started"), ("plain", "release.step")]


async def test_a_deleted_release_is_told_of_to_the_end(registry: Registry) -> None:
    """What was written down is still told; then there is nothing to do."""
    await registry.act_on_release("r", Action.ABORT, ACTOR)
    await registry.delete("Release", "r", ACTOR)
    assert ("plain", "release.aborted") in await told(registry)
    assert (await registry.outbox.take(100)).more_at is None


async def test_no_secret_is_written_down(registry: Registry) -> None:
    """Only where it is found; and a stored secret that a webhook names cannot be deleted."""
    await registry.put_secret("s", {"k": "hunter2"}, ACTOR)
    assert "hunter2" not in str([(item.target, item.body) for item in await take(registry)])
    with pytest.raises(InUseError):
        await registry.delete_secret("s", ACTOR)


async def test_without_webhooks_nothing_is_written(registry: Registry) -> None:
    """A Release that nobody is told of."""
    await told(registry)
    await registry.apply([raw("Release", "r", **{**SPEC, "notify": []})], ACTOR)
    assert await told(registry) == []
