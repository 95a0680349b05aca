"""Mirrors: documents and secrets that are kept elsewhere and followed here, each with one owner."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from control_plane.registry.committing import commit
from control_plane.registry.errors import SecretKeyError
from control_plane.registry.ledger import Change, Ledger
from control_plane.registry.mirrored_secrets import SecretsPlan, Wanted, plan_secrets
from control_plane.registry.mirroring import MirrorPlan, plan_mirror
from control_plane.registry.ports import Sealer
from control_plane.registry.state import State, renumbered, secrets_changed
from control_plane.registry.values import Actor, Head
from control_plane.registry.verdicts import Judgement, Mirrored, Reason, Verdict
from control_plane.resources.loading import RawDocument
from control_plane.resources.users import users_of_secret


@dataclass(frozen=True, slots=True)
class _Plans:
    """What is to be done, and on which state that was decided."""

    state: State
    documents: MirrorPlan
    secrets: SecretsPlan

    @property
    def changes_something(self) -> bool:
        return bool(self.documents.change.contents or self.secrets.names)

    def fits(self, state: State) -> bool:
        """Say whether it would be decided so for `state` as well."""
        mine = self.state
        return (
            state.head.stored is mine.head.stored
            and state.in_force.documents is mine.in_force.documents
            and state.secrets is mine.secrets
        )


class Mirrors:
    """The mirrors of this installation."""

    def __init__(self, ledger: Ledger, sealer: Sealer) -> None:
        self._ledger = ledger
        self._sealer = sealer

    async def follow(
        self, owner: str, raws: Sequence[RawDocument], secrets: Wanted | None, actor: Actor
    ) -> Mirrored:
        """Have nothing else of `owner` exist than `raws` and `secrets` (None: they stay as they are).

        What cannot be is refused by itself; the rest is one new revision, or none when nothing changes.

        Raises:
            SecretKeyError: this replica cannot seal as the others do.
        """
        await self._ledger.refresh()
        plans = await self._plans(self._ledger.state, owner, raws, secrets)
        if plans.changes_something:
            async with self._ledger.change() as change:
                if not plans.fits(change.state):
                    plans = await self._plans(change.state, owner, raws, secrets)
                await self._write(change, plans, owner, actor)
                head = change.state.head
        else:
            head = plans.state.head
        return _outcome(head, plans)

    async def _plans(
        self, state: State, owner: str, raws: Sequence[RawDocument], secrets: Wanted | None
    ) -> _Plans:
        documents = await asyncio.to_thread(plan_mirror, state.head, raws, owner)
        if secrets is None:
            return _Plans(state, documents, SecretsPlan())
        change = documents.change
        # What is changed now comes into force whatever was halted before.
        sets = [change.documents] if change.contents else [change.documents, state.in_force.documents]

        def user_of(name: str) -> str | None:
            users = (user.document for documents in sets for user in users_of_secret(documents, name))
            return next(users, None)

        return _Plans(
            state,
            documents,
            plan_secrets(owner, secrets, state.secrets, state.head.secrets, user_of),
        )

    async def _write(self, change: Change, plans: _Plans, owner: str, actor: Actor) -> None:
        secrets = plans.secrets
        if secrets.names and "secrets" in change.state.unread:
            raise SecretKeyError(change.state.unread["secrets"])
        for name, values in secrets.stored.items():
            sealed = {key: self._sealer.seal(name, key, value.encode()) for key, value in values.items()}
            await change.tx.put_secret(name, sealed, change.at, owner)
        for name in secrets.deleted:
            await change.tx.delete_secret(name)
        if plans.documents.change.contents:
            await commit(change, plans.documents.change, actor, "mirror", detail=secrets.told())
        elif secrets.names:
            targets = ", ".join(f"Secret/{name}" for name in secrets.names)
            number = await change.add_plain_revision(actor, "mirror", targets, secrets.told())
            change.state = renumbered(change.state, number)
        if secrets.names:
            change.state = secrets_changed(change.state, await change.tx.secrets(), self._sealer)
            change.touch("secrets")


def _outcome(head: Head, plans: _Plans) -> Mirrored:
    owner = plans.documents.change.owner
    judgements = (*plans.documents.judgements, *plans.secrets.refused)
    kept = (*plans.documents.kept, *plans.secrets.kept)
    return Mirrored(head.revision, tuple(_verdict(head, found, owner) for found in judgements), kept)


def _verdict(head: Head, found: Judgement, owner: str) -> Verdict:
    stored = head.stored.get(found.key)
    mine = stored is not None and stored.owner == owner
    return Verdict(
        found.kind,
        found.name,
        found.reason is Reason.ACCEPTED,
        found.reason,
        found.message,
        mine,
        stored.revision if stored is not None and mine else None,
    )
