"""Looking back."""

from datetime import timedelta

import pytest

from control_plane.registry.errors import NotFoundError
from control_plane.registry.registry import Registry
from control_plane.registry.values import ChangeAction
from tests.harness.registries import ACTOR, START, SetClock, consumer


async def test_history_tells_what_each_revision_changed(registry: Registry, clock: SetClock) -> None:
    """Newest first; with fields when one is asked for; whatever the clock did meanwhile."""
    await registry.apply([consumer("c", "t"), consumer("d", "t")], ACTOR, action="start")
    clock.move(days=-300)
    await registry.put("Consumer", "c", consumer("c", "u"), ACTOR)
    await registry.delete("Consumer", "d", ACTOR)
    listed = await registry.revisions()
    assert [(item.revision, item.action, item.actor, item.source) for item in listed] == [
        (3, "delete", "tester", "127.0.0.1"),
        (2, "put", "tester", "127.0.0.1"),
        (1, "start", "tester", "127.0.0.1"),
    ]
    assert listed[1].at == START - timedelta(days=300)
    assert [item.revision for item in await registry.revisions(limit=1, before=3)] == [2]
    (change,) = (await registry.revision(2)).changes
    assert (change.document, change.fields[0].before, change.fields[0].after) == ("Consumer/c", "t", "u")
    with pytest.raises(NotFoundError, match="revision 9 does not exist"):
        await registry.revision(9)


async def test_two_revisions_are_compared_in_either_order(registry: Registry) -> None:
    """0 is the empty beginning."""
    for tenant in ("t", "u", "t"):
        await registry.put("Consumer", "c", consumer("c", tenant), ACTOR)
    assert await registry.diff(1, 3) == ()
    (forth,) = await registry.diff(1, 2)
    (back,) = await registry.diff(2, 1)
    assert (forth.fields[0].after, back.fields[0].after) == ("u", "t")
    assert [item.action for item in await registry.diff(0, 2)] == [ChangeAction.CREATE]
    assert [item.action for item in await registry.diff(2, 0)] == [ChangeAction.DELETE]
    with pytest.raises(NotFoundError):
        await registry.diff(1, 4)


async def test_every_change_and_what_others_report_is_in_the_audit(registry: Registry) -> None:
    """Who, when, what, from where, and how it ended; texts are cut and printable."""
    await registry.apply([consumer(f"c{number:02}") for number in range(25)], ACTOR)
    await registry.record(ACTOR, "put", "Tier/x\x00\n", outcome="forbidden", detail="z" * 5_000)
    refused, applied = await registry.audit()
    assert (refused.actor, refused.role, refused.source, refused.at) == (
        "tester",
        "admin",
        "127.0.0.1",
        START,
    )
    assert (refused.target, refused.outcome, refused.revision) == ("Tier/x??", "forbidden", None)
    assert len(refused.detail) == 1_024
    assert (applied.action, applied.outcome, applied.revision) == ("apply", "ok", 1)
    assert applied.target.startswith("Consumer/c00, Consumer/c01, ")
    assert applied.target.endswith(", Consumer/c19 and 5 more")
    assert await registry.audit(limit=1, before=refused.id) == [applied]
