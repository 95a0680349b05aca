"""What a replica has in memory, and how it follows the database: it reads again only what changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Final

from control_plane.registry.errors import SecretKeyError, StoreOpenError
from control_plane.registry.planning import Plan, in_order, parse_stored
from control_plane.registry.ports import Epochs, Positions, Reading, SealedSecret, Sealer
from control_plane.registry.values import Head, KeyRow, SecretName, StoredDocument, TokenRow
from control_plane.resources.documents import assemble
from control_plane.resources.kinds import KINDS
from control_plane.resources.problems import InvalidDocumentsError
from ext_proc.contract.snapshot import ConsumerKey

ANY_KIND: Final = frozenset(KINDS)


@dataclass(frozen=True, slots=True)
class State:
    """Everything in memory, immutable.

    `keys` and `tokens` are by id, oldest first; `secrets` by name. `unread` says of an epoch why what another
    replica changed cannot be used here: it stays as it was, and is tried again.
    """

    epochs: Epochs = field(default_factory=Epochs)
    positions: Positions = field(default_factory=Positions)
    head: Head = field(default_factory=lambda: Head(0))
    in_force: Head = field(default_factory=lambda: Head(0))
    keys: Mapping[str, KeyRow] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    tokens: Mapping[str, TokenRow] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    secrets: Mapping[str, SecretName] = field(default_factory=lambda: MappingProxyType({}))
    unread: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def with_everywhere(self, **parts: object) -> State:
        """Return this state with `parts` of both heads replaced: those that have no history, such as keys."""
        return replace(
            self,
            head=replace(self.head, **parts),  # type: ignore[arg-type]
            in_force=replace(self.in_force, **parts),  # type: ignore[arg-type]
        )


async def load(reading: Reading, sealer: Sealer, key_salt: str) -> State:
    """Read everything.

    Raises:
        StoreOpenError: this build refuses the documents that are stored.
        SecretKeyError: the stored secrets were sealed with another key.
    """
    state = await refreshed(State().with_everywhere(key_salt=key_salt), reading, sealer)
    if "secrets" in state.unread:
        raise SecretKeyError(state.unread["secrets"])
    if "revisions" in state.unread:
        raise StoreOpenError(state.unread["revisions"])
    return state


async def refreshed(state: State, reading: Reading, sealer: Sealer) -> State:
    """Return `state` as `reading` has it now; the same object when nothing changed.

    What cannot be used is left as it was and named in `unread`, so that one bad thing holds back no other:
    a revoked key has to be revoked everywhere.
    """
    epochs = await reading.epochs()
    known = state.epochs
    if epochs == known:
        return state
    unread: dict[str, str] = {}
    if epochs.keys != known.keys:
        state = keys_changed(state, {row.info.id: row for row in await reading.keys()})
    if epochs.tokens != known.tokens:
        state = replace(state, tokens={row.id: row for row in await reading.tokens()})
    if epochs.secrets != known.secrets:
        try:
            state = secrets_changed(state, await reading.secrets(), sealer)
        except SecretKeyError as error:
            unread["secrets"] = str(error)
            epochs = replace(epochs, secrets=known.secrets)
    if epochs.revisions != known.revisions:
        state = state.with_everywhere(
            purges=tuple(await reading.purges()), releases=MappingProxyType(await reading.releases())
        )
        try:
            state = await _follow(state, reading)
        except InvalidDocumentsError as refused:
            first = refused.problems[0].sentence()
            unread["revisions"] = (
                f"this build refuses the documents in the database ({first}); run the build that wrote them"
            )
            epochs = replace(epochs, revisions=known.revisions)
    return replace(state, epochs=epochs, unread=unread)


def keys_changed(state: State, keys: Mapping[str, KeyRow]) -> State:
    """Return `state` with these Consumer keys: revoked ones in no head, expiring ones with their end."""
    live = {
        row.digest: ConsumerKey(row.info.consumer, _posix(row.info.expires_at))
        for row in keys.values()
        if row.info.revoked_at is None
    }
    return replace(state, keys=keys).with_everywhere(
        consumer_keys=MappingProxyType(dict(sorted(live.items())))
    )


def secrets_changed(state: State, sealed: Iterable[SealedSecret], sealer: Sealer) -> State:
    """Return `state` with these secrets, decrypted.

    Raises:
        SecretKeyError: one does not open.
    """
    values: dict[tuple[str, str], bytes] = {}
    names: dict[str, SecretName] = {}
    for item in sorted(sealed, key=lambda item: (item.name, item.key)):
        values[item.name, item.key] = sealer.unseal(item.name, item.key, item.sealed)
        keys = names[item.name].keys if item.name in names else ()
        names[item.name] = SecretName(item.name, (*keys, item.key), item.changed_at, item.owner)
    return replace(state, secrets=names).with_everywhere(secrets=MappingProxyType(values))


def documents_changed(state: State, plan: Plan, revision: int, at: datetime) -> State:
    """Return `state` after `plan` became `revision`; it is in force, with all it is built on."""
    head = _planned(state.head, plan, revision, at)
    return replace(
        state, head=head, in_force=head, positions=Positions(revision, revision, revision, revision)
    )


def renumbered(state: State, revision: int) -> State:
    """Return `state` after a `revision` that changed no document: what was halted stays so."""
    return replace(
        state,
        head=replace(state.head, revision=revision),
        in_force=replace(state.in_force, revision=revision),
        positions=replace(state.positions, newest=revision, newest_accepted=revision),
    )


def _planned(head: Head, plan: Plan, revision: int, at: datetime) -> Head:
    changed = {
        key: StoredDocument(*key, revision, content, at, plan.owner)
        for key, content in plan.contents.items()
        if content is not None
    }
    stored = in_order(head.stored, changed, plan.contents.keys() - changed.keys())
    return replace(
        head,
        revision=revision,
        stored=MappingProxyType(stored),
        parsed=MappingProxyType(plan.parsed),
        documents=plan.documents,
    )


async def _follow(state: State, reading: Reading) -> State:
    positions = await reading.positions()
    if positions.newest < state.positions.newest:
        # Another database than before (a backup was put back): nothing known of it counts.
        state = replace(
            state, positions=Positions(), head=replace(_bare(state), revision=0), in_force=_bare(state)
        )
    head, in_force = state.head, state.in_force
    if positions.documents != state.positions.documents:
        head = await _advance(head, state.positions.documents, reading)
    if positions.documents_accepted == positions.documents:
        in_force = head
    elif positions.documents_accepted != state.positions.documents_accepted:
        in_force = _with_documents(_bare(state), await reading.documents_at(positions.documents_accepted))
    return replace(
        state,
        positions=positions,
        head=replace(head, revision=positions.newest),
        in_force=replace(in_force, revision=positions.newest_accepted),
    )


def _bare(state: State) -> Head:
    """Return a head without documents."""
    known = state.head
    return Head(
        0,
        consumer_keys=known.consumer_keys,
        key_salt=known.key_salt,
        secrets=known.secrets,
        purges=known.purges,
        releases=known.releases,
    )


async def _advance(head: Head, since: int, reading: Reading) -> Head:
    """Return `head` with what changed after the revision `since`."""
    versions = await reading.versions_since(since)
    changed = {version.key: stored for version in versions if (stored := version.stored()) is not None}
    gone = {version.key for version in versions if version.key not in changed and version.key in head.stored}
    parsed = in_order(head.parsed, parse_stored(changed.values()), gone)
    return replace(
        head,
        stored=MappingProxyType(in_order(head.stored, changed, gone)),
        parsed=MappingProxyType(parsed),
        documents=assemble(list(parsed.values()), {version.kind for version in versions}),
    )


def _with_documents(head: Head, documents: Sequence[StoredDocument]) -> Head:
    parsed = dict(sorted(parse_stored(documents).items()))
    return replace(
        head,
        stored=MappingProxyType({item.key: item for item in sorted(documents, key=lambda item: item.key)}),
        parsed=MappingProxyType(parsed),
        documents=assemble(list(parsed.values()), ANY_KIND),
    )


def _posix(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()
