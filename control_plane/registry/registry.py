"""The one door to policy: documents, keys, secrets, tokens and the audit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from control_plane.registry.bulletins import Outbox
from control_plane.registry.committing import commit
from control_plane.registry.errors import NotFoundError
from control_plane.registry.history import History
from control_plane.registry.keys import ConsumerKeys
from control_plane.registry.ledger import Ledger, Log, audit_entry, printable
from control_plane.registry.mirrored_secrets import Wanted
from control_plane.registry.mirrors import Mirrors
from control_plane.registry.planning import (
    parse_all,
    parse_one,
    plan_change,
    plan_delete,
    plan_rollback,
)
from control_plane.registry.ports import Sealer, Store
from control_plane.registry.preconditions import check_preconditions
from control_plane.registry.purges import Purges
from control_plane.registry.releases import Judged, Releases
from control_plane.registry.state import refreshed
from control_plane.registry.tokens import Tokens
from control_plane.registry.values import (
    ITSELF,
    Actor,
    Applied,
    AuditEntry,
    ConsumerKeyInfo,
    DocumentChange,
    DocumentKey,
    Head,
    MintedKey,
    Purged,
    Put,
    Revision,
    SecretName,
    StoredDocument,
    StoreStatus,
    TokenRow,
)
from control_plane.registry.vault import Vault
from control_plane.registry.verdicts import Mirrored
from control_plane.releases.counts import Both, Compared
from control_plane.releases.machine import Action, Standing
from control_plane.releases.queries import Answer
from control_plane.resources.kinds import KINDS
from control_plane.resources.loading import RawDocument

POLL_S: Final = 1.0


class Registry:
    """Reads come from memory and go on without a database; changes are transactions on the newest state.

    Every change may raise `StoreUnavailableError` or `StorageFullError`; then nothing was changed. So may
    reads of what is not in memory: revisions, diffs and the audit.
    """

    def __init__(
        self,
        store: Store,
        sealer: Sealer,
        *,
        now: Callable[[], datetime],
        random_bytes: Callable[[int], bytes],
        log: Log,
        poll_s: float = POLL_S,
    ) -> None:
        self._now = now
        self._ledger = Ledger(store, sealer, now=now, random_bytes=random_bytes, log=log, poll_s=poll_s)
        self._keys = ConsumerKeys(self._ledger, random_bytes)
        self._vault = Vault(self._ledger, sealer)
        self._tokens = Tokens(self._ledger)
        self._purges = Purges(self._ledger)
        self._mirrors = Mirrors(self._ledger, sealer)
        self._releases = Releases(self._ledger)
        self.outbox: Final = Outbox(self._ledger)
        self._history = History(self._ledger)
        self._sealer = sealer

    @property
    def head(self) -> Head:
        """The newest revision, halted or not: what the API shows and edits."""
        return self._ledger.state.head

    @property
    def in_force(self) -> Head:
        """The newest revision that is not halted: what is pushed."""
        return self._ledger.state.in_force

    def subscribe(self, listener: Callable[[Head], None]) -> None:
        """Call `listener` on the event loop with each new head in force; the first time in `open`."""
        self._ledger.subscribe(listener)

    async def open(self) -> None:
        """Migrate the database, load it and follow what other replicas do.

        Raises:
            StoreUnavailableError, StorageFullError: the database cannot be used now.
            StoreOpenError, SecretKeyError: it cannot be used like this; the text says what to do.
        """
        await self._ledger.open()
        await self._releases.begin_missing()

    async def close(self) -> None:
        """Stop following and let the database go."""
        await self._ledger.close()

    async def refresh(self) -> None:
        """Read now what other replicas changed, rather than within a second."""
        await self._ledger.refresh()

    def status(self) -> StoreStatus:
        """Return whether the database answers."""
        return self._ledger.status()

    async def apply(
        self,
        raws: Sequence[RawDocument],
        actor: Actor,
        *,
        dry_run: bool = False,
        action: str = "apply",
        without: Collection[DocumentKey] = (),
    ) -> Applied:
        """Create or replace every document of `raws`, or none. Without a difference there is no new revision.

        The documents `without` that are there are deleted with it.

        Raises:
            InvalidDocumentsError: a document is refused, or the set as a whole would be.
        """
        # Thousands of documents take a while to check; sidecars are served meanwhile.
        written = await asyncio.to_thread(parse_all, raws)
        if dry_run:
            head = self.head
            plan = await asyncio.to_thread(plan_change, head, written)
            return Applied(head.revision, plan.changes, plan.warnings)
        async with self._ledger.change() as change:
            head = change.state.head
            deleted = [key for key in without if key in head.stored]
            plan = await asyncio.to_thread(plan_change, head, written, deleted)
            if plan.contents:
                await commit(change, plan, actor, action)
            revision = change.state.head.revision
        return Applied(revision, plan.changes, plan.warnings)

    async def put(
        self,
        kind: str,
        name: str,
        raw: RawDocument,
        actor: Actor,
        *,
        if_match: str | None = None,
        if_none_match: bool = False,
    ) -> Put:
        """Create or replace one document; `if_match` is an If-Match header, `if_none_match`: there is none.

        Raises:
            NotFoundError: there is no such kind.
            PreconditionError: the document is not as the caller counted on.
            InvalidDocumentsError: it is refused, or the set as a whole would be.
        """
        if kind not in KINDS:
            raise NotFoundError(f"{kind}/{name}")
        document = parse_one(kind, name, raw)
        key = kind, name
        async with self._ledger.change() as change:
            before = change.state.head.stored.get(key)
            check_preconditions(f"{kind}/{name}", before, if_match, if_none_match=if_none_match)
            plan = await asyncio.to_thread(plan_change, change.state.head, [document])
            if plan.contents:
                await commit(change, plan, actor, "put")
            stored = change.state.head.stored[key]
        return Put(stored, before is None, plan.warnings)

    async def delete(self, kind: str, name: str, actor: Actor, *, if_match: str | None = None) -> int:
        """Delete one document; a Consumer's keys are revoked with it. Returns the new revision.

        Raises:
            NotFoundError: there is none.
            PreconditionError: it is not as the caller counted on.
            InUseError: others name it.
            InvalidDocumentsError: the others would be wrong without it.
        """
        key = kind, name
        async with self._ledger.change() as change:
            head = change.state.head
            if key not in head.stored:
                raise NotFoundError(f"{kind}/{name}")
            check_preconditions(f"{kind}/{name}", head.stored[key], if_match)
            plan = await asyncio.to_thread(plan_delete, head, key)
            return await commit(change, plan, actor, "delete")

    async def mirror(
        self, owner: str, raws: Sequence[RawDocument], secrets: Wanted | None, actor: Actor
    ) -> Mirrored:
        """Have all of `owner`, and nothing else of it, be as it is wanted; see `Mirrors.follow`."""
        return await self._mirrors.follow(owner, raws, secrets, actor)

    async def rollback(self, revision: int, actor: Actor) -> Applied:
        """Make the documents what they were at `revision`, as a new one; keys and secrets stay.

        Raises:
            NotFoundError: there is no such revision.
            InvalidDocumentsError: this build refuses what was right then.
        """
        async with self._ledger.change() as change:
            if await change.tx.revision(revision) is None:
                raise NotFoundError(f"revision {revision}")
            target = await change.tx.documents_at(revision)
            plan = await asyncio.to_thread(plan_rollback, change.state.head, target)
            number = await commit(change, plan, actor, "rollback", rolled_back_to=revision)
        return Applied(number, plan.changes, plan.warnings)

    async def halt(self, revision: int, reason: str) -> None:
        """Take `revision` out of force for good, since the data plane refused it. Again is nothing.

        Raises:
            NotFoundError: there is no such revision.
        """
        async with self._ledger.change() as change:
            found = await change.tx.revision(revision)
            if found is None:
                raise NotFoundError(f"revision {revision}")
            if found.state == "halted":
                return
            await change.tx.halt(revision, printable(reason))
            await change.audit(ITSELF, "halt", f"revision {revision}", revision=revision, detail=reason)
            change.touch("revisions")
            await change.flush()
            change.state = await refreshed(change.state, change.tx, self._sealer)

    async def revisions(self, *, limit: int = 50, before: int | None = None) -> list[Revision]:
        """Return revisions below `before`, newest first; their changes without fields."""
        return await self._history.revisions(limit=limit, before=before)

    async def revision(self, number: int) -> Revision:
        """Return one revision with the fields it changed; see `History.revision`."""
        return await self._history.revision(number)

    async def diff(self, older: int, newer: int) -> tuple[DocumentChange, ...]:
        """Return what has to change in `older` to get `newer`; see `History.diff`."""
        return await self._history.diff(older, newer)

    async def documents_at(self, number: int) -> list[StoredDocument]:
        """Return the documents of one revision, sorted by kind and name; see `History.documents_at`."""
        return await self._history.documents_at(number)

    async def audit(self, *, limit: int = 100, before: int | None = None) -> list[AuditEntry]:
        """Return audit rows with ids below `before`, newest first."""
        return await self._history.audit(limit=limit, before=before)

    async def record(
        self, actor: Actor, action: str, target: str, *, outcome: str = "ok", detail: str = ""
    ) -> None:
        """Write one audit row, for instance of a refused attempt. Texts are cut and made printable."""
        entry = audit_entry(self._now(), actor, action, target, outcome=outcome, detail=detail)
        await self._ledger.record(entry)

    async def create_key(
        self, consumer: str, actor: Actor, *, expires_at: datetime | None = None
    ) -> MintedKey:
        """Make a key for a Consumer; see `ConsumerKeys.create`."""
        return await self._keys.create(consumer, actor, expires_at=expires_at)

    async def keys(self, consumer: str) -> list[ConsumerKeyInfo]:
        """Return the keys of a Consumer, oldest first, revoked ones too; see `ConsumerKeys.of`."""
        return self._keys.of(consumer)

    async def rotate_key(self, consumer: str, key_id: str, actor: Actor, *, overlap: timedelta) -> MintedKey:
        """Make a key in place of another, which goes on for `overlap`; see `ConsumerKeys.rotate`."""
        return await self._keys.rotate(consumer, key_id, actor, overlap=overlap)

    async def revoke_key(self, consumer: str, key_id: str, actor: Actor) -> None:
        """End a key now; see `ConsumerKeys.revoke`."""
        await self._keys.revoke(consumer, key_id, actor)

    async def purge(
        self,
        actor: Actor,
        *,
        tenant: str | None = None,
        model: str | None = None,
        version: str | None = None,
        key_prefix: str | None = None,
    ) -> Purged:
        """Void cached answers that were asked for until now; see `Purges.add`."""
        return await self._purges.add(
            actor, tenant=tenant, model=model, version=version, key_prefix=key_prefix
        )

    async def act_on_release(self, name: str, action: Action, actor: Actor) -> Standing:
        """Promote, pause, resume or abort a Release; see `Releases.act`."""
        return await self._releases.act(name, action, actor)

    async def release_verdict(self, name: str) -> Judged:
        """Return how far a Release is and what its numbers say; see `Releases.judged`."""
        return await self._releases.judged(name)

    async def look_at_releases(
        self,
        intervals: Mapping[str, Both],
        *,
        obeyed: bool,
        compared: Mapping[str, Compared] = MappingProxyType({}),
    ) -> None:
        """Take in what the versions of each Release did, and let it move; see `Releases.look`."""
        await self._releases.look(intervals, obeyed=obeyed, compared=compared)

    def take_answers(self, answers: Mapping[str, Sequence[Answer]]) -> None:
        """Judge by these answers to the queries of each Release from now on."""
        self._releases.answers = answers

    async def put_secret(self, name: str, values: Mapping[str, str], actor: Actor) -> bool:
        """Store a secret's values, sealed, in place of those it had; see `Vault.put`."""
        return await self._vault.put(name, values, actor)

    async def delete_secret(self, name: str, actor: Actor) -> None:
        """Delete a secret that no Backend names; see `Vault.delete`."""
        await self._vault.delete(name, actor)

    async def secret_names(self) -> list[SecretName]:
        """Return the stored secrets by name, never their values."""
        return self._vault.names()

    async def rotate_secrets(self, actor: Actor) -> int:
        """Seal every stored value again with the newest key; see `Vault.rotate`."""
        return await self._vault.rotate(actor)

    async def add_token(self, row: TokenRow, actor: Actor) -> None:
        """Keep a new API token; see `Tokens.add`."""
        await self._tokens.add(row, actor)

    async def tokens(self) -> list[TokenRow]:
        """Return every token, oldest first, revoked ones too; from memory."""
        return self._tokens.all()

    async def token(self, token_id: str) -> TokenRow | None:
        """Return one token; from memory, so that it works while the database is gone."""
        return self._tokens.by_id(token_id)

    async def revoke_token(self, token_id: str, actor: Actor) -> None:
        """End a token now, on every replica within a second; see `Tokens.revoke`."""
        await self._tokens.revoke(token_id, actor)
