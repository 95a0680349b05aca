"""What the registry asks of a database and of a cipher. Both are passed in; neither is known by name here.

Every method of a store raises `StoreUnavailableError` when the database does not answer in time and
`StorageFullError` when it has no room; then nothing was changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from control_plane.registry.values import (
    AuditEntry,
    ChangeAction,
    DocumentKey,
    KeyRow,
    Revision,
    StoredDocument,
    TokenRow,
)
from control_plane.releases.machine import Standing
from ext_proc.contract.snapshot import Purge


@dataclass(frozen=True, slots=True)
class Epochs:
    """One counter for each thing kept in memory; a replica reads again what has another number than its own.

    `revisions` counts new revisions, purges and moves of Releases with them, and halts; `secrets` new
    encryption too.
    """

    revisions: int = 0
    keys: int = 0
    secrets: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Positions:
    """Which revisions matter; 0 is the empty beginning.

    `newest` and `newest_accepted` are of any revision, `documents` and `documents_accepted` of those that
    changed documents.
    """

    newest: int = 0
    newest_accepted: int = 0
    documents: int = 0
    documents_accepted: int = 0


@dataclass(frozen=True, slots=True)
class DocumentVersion:
    """What one revision made of one document; `content` None is a deletion. `owner`: see `StoredDocument`."""

    kind: str
    name: str
    revision: int
    action: ChangeAction
    content: bytes | None
    at: datetime
    owner: str = ""

    @property
    def key(self) -> DocumentKey:
        """Kind and name."""
        return self.kind, self.name

    def stored(self) -> StoredDocument | None:
        """Return the document as kept, None for a deletion."""
        if self.content is None:
            return None
        return StoredDocument(self.kind, self.name, self.revision, self.content, self.at, self.owner)


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """One value of a stored secret, encrypted. `owner`: see `SecretName`."""

    name: str
    key: str
    sealed: bytes
    changed_at: datetime
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Bulletin:
    """One event of a Release that one webhook is still to be told.

    Attributes:
        id: the same at every attempt.
        target: the webhook as JSON (its URL, and where its secret is found).
        body: what it is sent.
        due_at: not before; while an attempt runs, until when nobody else makes one.
        attempts: how many have begun.
    """

    id: str
    release: str
    target: str = field(repr=False)
    body: str = field(repr=False)
    made_at: datetime
    due_at: datetime
    attempts: int = 0


class Reading(Protocol):
    """One consistent look at the database."""

    async def epochs(self) -> Epochs:
        """Return the counters."""
        ...

    async def positions(self) -> Positions:
        """Return which revisions matter."""
        ...

    async def documents_at(self, revision: int) -> list[StoredDocument]:
        """Return the documents there were at `revision`."""
        ...

    async def versions_since(self, revision: int) -> list[DocumentVersion]:
        """Return the newest version of each document that changed after `revision`."""
        ...

    async def history(self, older: int, newer: int) -> list[DocumentVersion]:
        """Return every version up to `newer` of the documents that changed after `older`, oldest first."""
        ...

    async def keys(self) -> list[KeyRow]:
        """Return every Consumer key, oldest first."""
        ...

    async def secrets(self) -> list[SealedSecret]:
        """Return every stored secret."""
        ...

    async def tokens(self) -> list[TokenRow]:
        """Return every API token, oldest first."""
        ...

    async def purges(self) -> list[Purge]:
        """Return the purges of cached answers, the oldest first."""
        ...

    async def releases(self) -> dict[str, Standing]:
        """Return how far each Release is, by name."""
        ...

    async def evidence(self, name: str) -> bytes | None:
        """Return what is known of the versions of a Release, as it was kept."""
        ...

    async def bulletins(self) -> list[Bulletin]:
        """Return the oldest bulletin of each target, the oldest first."""
        ...

    async def setting(self, name: str) -> bytes | None:
        """Return a setting of this installation."""
        ...

    async def revisions(self, *, limit: int, before: int | None) -> list[Revision]:
        """Return revisions below `before`, newest first, with the documents they changed."""
        ...

    async def revision(self, number: int) -> Revision | None:
        """Return one revision with the documents it changed."""
        ...

    async def audit(self, *, limit: int, before: int | None) -> list[AuditEntry]:
        """Return audit rows with ids below `before`, newest first."""
        ...


class Writing(Reading, Protocol):
    """One transaction: all of it or nothing. It sees what other writers committed before it got the lock."""

    async def bump(self, names: Iterable[str]) -> Epochs:
        """Raise the counters `names` by one and return all; other replicas are told at the commit."""
        ...

    async def add_revision(
        self, revision: Revision, versions: Sequence[DocumentVersion], *, of_documents: bool
    ) -> None:
        """Keep a revision and what it made of documents (`revision.changes` is not looked at).

        `of_documents` is false for a change of keys or secrets.
        """
        ...

    async def halt(self, revision: int, reason: str) -> None:
        """Mark a revision halted."""
        ...

    async def add_key(self, row: KeyRow) -> None:
        """Keep a new Consumer key."""
        ...

    async def end_key(
        self, key_id: str, *, expires_at: datetime | None = None, revoked_at: datetime | None = None
    ) -> None:
        """Give a key an end: the fields that are not None."""
        ...

    async def put_secret(self, name: str, values: Mapping[str, bytes], at: datetime, owner: str = "") -> None:
        """Keep the sealed values of a secret in place of those it had."""
        ...

    async def reseal(self, secrets: Sequence[SealedSecret]) -> None:
        """Replace the sealed form of values that stay what they are."""
        ...

    async def delete_secret(self, name: str) -> None:
        """Delete every value of a secret."""
        ...

    async def add_token(self, row: TokenRow) -> None:
        """Keep a new API token."""
        ...

    async def revoke_token(self, token_id: str, at: datetime) -> None:
        """End a token."""
        ...

    async def put_purges(self, purges: Sequence[Purge]) -> None:
        """Keep these purges of cached answers in place of those there were."""
        ...

    async def put_release(self, name: str, standing: Standing) -> None:
        """Keep how far a Release is; of one that begins anew what was known is forgotten."""
        ...

    async def put_evidence(self, name: str, content: bytes) -> None:
        """Keep what is known of the versions of a Release."""
        ...

    async def delete_release(self, name: str) -> None:
        """Forget how far a Release was."""
        ...

    async def add_bulletins(self, bulletins: Sequence[Bulletin]) -> None:
        """Keep what webhooks are to be told."""
        ...

    async def put_bulletin_off(self, bulletin_id: str, due_at: datetime, attempts: int) -> None:
        """Have a bulletin wait until `due_at`; one that is gone is nothing."""
        ...

    async def delete_bulletin(self, bulletin_id: str) -> None:
        """Forget a bulletin; one that is gone is nothing."""
        ...

    async def set_setting(self, name: str, value: bytes) -> None:
        """Keep a setting of this installation."""
        ...

    async def add_audit(self, entry: AuditEntry) -> None:
        """Keep an audit row; its id is the database's to give."""
        ...


class Store(Protocol):
    """A database."""

    @property
    def name(self) -> str:
        """What it is, for status answers: `sqlite` or `postgresql`."""
        ...

    async def open(self) -> None:
        """Bring the tables to this build's form, safely beside other replicas that do the same.

        Raises:
            StoreOpenError: this build, user or file cannot be used; the text says what to do.
        """
        ...

    async def close(self) -> None:
        """Let every connection go."""
        ...

    def read(self) -> AbstractAsyncContextManager[Reading]:
        """Look at the database."""
        ...

    def write(self) -> AbstractAsyncContextManager[Writing]:
        """Change the database, one writer at a time over all replicas; committed if the block ends well."""
        ...

    def append(self) -> AbstractAsyncContextManager[Writing]:
        """Add audit rows, beside other writers."""
        ...

    async def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever another replica may have changed something, until cancelled.

        A hint that may come late or not at all: whoever calls this polls the counters too.
        """
        ...


class Sealer(Protocol):
    """Encrypts values of stored secrets. What is sealed opens only under the name and key it was sealed for.

    Raises (all of them): SecretKeyError.
    """

    def seal(self, name: str, key: str, value: bytes) -> bytes:
        """Encrypt."""
        ...

    def unseal(self, name: str, key: str, sealed: bytes) -> bytes:
        """Decrypt."""
        ...

    def renew(self) -> None:
        """Seal with a new key from now on, if keys are this sealer's to make; older ones still open."""
        ...

    def retire(self) -> None:
        """Forget every key but the newest, if keys are this sealer's to make."""
        ...
