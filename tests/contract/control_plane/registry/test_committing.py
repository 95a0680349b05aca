"""A planned change, written down with all that hangs on it."""

from __future__ import annotations

from control_plane.registry.committing import commit
from control_plane.registry.planning import parse_all, plan_change
from control_plane.registry.registry import Registry
from tests.harness.registries import ACTOR, consumer


async def test_owner_and_detail_are_written_with_the_documents(registry: Registry) -> None:
    """In the revision and the audit; what is deleted is nobody's, and its keys have ended."""
    ledger = registry._ledger
    async with ledger.change() as change:
        plan = plan_change(change.state.head, parse_all([consumer()]), owner="kubernetes")
        assert await commit(change, plan, ACTOR, "mirror", detail="secrets stored: s") == 1
    (stored,) = registry.head.stored.values()
    assert (stored.owner, stored.revision) == ("kubernetes", 1)
    await registry.create_key("c", ACTOR)
    async with ledger.change() as change:
        plan = plan_change(change.state.head, deleted=[("Consumer", "c")], owner="kubernetes")
        await commit(change, plan, ACTOR, "mirror")
    assert registry.in_force.consumer_keys == {}
    revision = await registry.revision(1)
    assert (revision.action, revision.detail) == ("mirror", "secrets stored: s")
    rows = [(row.target, row.detail) for row in await registry.audit() if row.action == "mirror"]
    assert rows == [("Consumer/c", ""), ("Consumer/c", "secrets stored: s")]
    await registry.apply([consumer()], ACTOR)
    assert registry.head.stored["Consumer", "c"].owner == ""
