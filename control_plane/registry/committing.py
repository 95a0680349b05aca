"""A planned change of documents, written down with all that hangs on it: history, audit, keys, Releases."""

from __future__ import annotations

from typing import Final

from control_plane.registry.keys import revoke_keys_of
from control_plane.registry.ledger import Change
from control_plane.registry.planning import Plan
from control_plane.registry.ports import DocumentVersion
from control_plane.registry.releases import begin_releases
from control_plane.registry.state import documents_changed
from control_plane.registry.values import Actor, ChangeAction, Revision

_NAMED_IN_AUDIT: Final = 20


async def commit(
    change: Change,
    plan: Plan,
    actor: Actor,
    action: str,
    *,
    rolled_back_to: int | None = None,
    detail: str = "",
) -> int:
    """Make `plan` the next revision, within `change`; returns its number.

    `detail` tells, without a value, what changes with it and is no document.
    """
    number = change.next_revision
    actions = plan.actions()
    versions = [
        DocumentVersion(
            *key, number, actions[key], content, change.at, plan.owner if content is not None else ""
        )
        for key, content in plan.contents.items()
    ]
    revision = Revision(
        number,
        change.at,
        actor.name,
        actor.source,
        action,
        rolled_back_to=rolled_back_to,
        detail=detail,
    )
    await change.tx.add_revision(revision, versions, of_documents=True)
    await change.audit(actor, action, _target(plan, rolled_back_to), revision=number, detail=detail)
    await revoke_keys_of(change, {version.name for version in versions if _ends_consumer(version)})
    change.state = documents_changed(change.state, plan, number, change.at)
    await begin_releases(change, {version.name for version in versions if version.kind == "Release"})
    change.touch("revisions")
    return number


def _ends_consumer(version: DocumentVersion) -> bool:
    return version.kind == "Consumer" and version.content is None


def _target(plan: Plan, rolled_back_to: int | None) -> str:
    if rolled_back_to is not None:
        return f"revision {rolled_back_to}"
    changed = [change.document for change in plan.changes if change.action is not ChangeAction.UNCHANGED]
    more = len(changed) - _NAMED_IN_AUDIT
    return ", ".join(changed[:_NAMED_IN_AUDIT]) + (f" and {more} more" if more > 0 else "")
