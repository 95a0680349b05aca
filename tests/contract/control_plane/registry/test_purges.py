"""Purges of cached answers: revisions of their own that no rollback undoes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from control_plane.registry.registry import Registry
from control_plane.resources.problems import InvalidDocumentsError
from ext_proc.contract.snapshot import Purge
from tests.harness.registries import ACTOR, START, SetClock, backend, model


@pytest.fixture
async def registry(registry: Registry) -> Registry:
    """A registry with one Model, `m`, also called `fast`, of the version `v`."""
    await registry.apply([backend(), model(aliases=["fast"])], ACTOR)
    return registry


async def test_a_purge_is_a_revision_with_its_audit_row(registry: Registry) -> None:
    """Names are as they are kept: the alias's Model, the tenant's partition, small letters."""
    purged = await registry.purge(ACTOR, model="fast", version="v", tenant="team-a", key_prefix="AB")
    assert (purged.revision, purged.at, purged.model, purged.version) == (2, START, "m", "v")
    assert (purged.tenant, purged.key_prefix) == ("tenant:team-a", "ab")
    wanted = (Purge(START.timestamp(), "tenant:team-a", "m", "v", "ab"),)
    assert registry.head.purges == registry.in_force.purges == wanted
    (row, *_), (revision, *_) = await registry.audit(), await registry.revisions()
    assert (row.action, row.target, row.revision, row.actor) == ("purge", "cache", 2, "tester")
    assert row.detail == "Model m, version v, tenant tenant:team-a, key ab…"
    assert (revision.action, revision.changes) == ("purge", ())
    await registry.purge(ACTOR)
    assert (await registry.audit())[0].detail == "every answer"


@pytest.mark.parametrize(
    ("conditions", "field", "told"),
    [
        ({"model": "fost"}, "model", 'names no Model and no alias; did you mean "m"?'),
        ({"model": "m", "version": "w"}, "version", "names no version of Model/m"),
        ({"version": "v"}, "version", "needs its Model"),
    ],
    ids=["model", "version", "version without its model"],
)
async def test_what_names_nothing_is_refused(
    registry: Registry, conditions: dict[str, str], field: str, told: str
) -> None:
    """A slip must not look like a purge; nothing is changed."""
    with pytest.raises(InvalidDocumentsError) as refused:
        await registry.purge(ACTOR, **conditions)
    (problem,) = refused.value.problems
    assert problem.field == field
    assert problem.message.startswith(told.partition(";")[0])
    assert registry.head.revision == 1
    assert registry.head.purges == ()


async def test_other_replicas_follow_and_restarts_remember(
    registry: Registry, replica: Callable[[], Registry]
) -> None:
    """To the microsecond."""
    other = replica()
    await other.open()
    await registry.purge(ACTOR, tenant="key:0a")
    await other.refresh()
    assert other.in_force.purges == registry.in_force.purges
    later = replica()
    await later.open()
    assert later.in_force.purges == registry.in_force.purges
    assert later.in_force.revision == 2


async def test_neither_rollback_nor_halt_brings_purged_answers_back(registry: Registry) -> None:
    """Documents go back; purges have no history."""
    await registry.purge(ACTOR, model="m")
    await registry.apply([backend(url="http://other/v1")], ACTOR)
    purges = registry.head.purges
    await registry.rollback(1, ACTOR)
    assert registry.in_force.purges == purges
    await registry.halt(4, "no")
    assert registry.in_force.purges == registry.head.purges == purges


async def test_a_replica_whose_clock_is_behind_voids_no_less(
    registry: Registry, replica: Callable[[], Registry], clock: SetClock
) -> None:
    """The moment never goes back."""
    await registry.purge(ACTOR, model="m")
    clock.move(hours=-1)
    other = replica()
    await other.open()
    assert (await other.purge(ACTOR, tenant="a")).at == START
    clock.move(hours=2)
    assert (await other.purge(ACTOR)).at == START + timedelta(hours=1)
    assert len(other.head.purges) == 1
