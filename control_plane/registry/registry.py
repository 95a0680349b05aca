"""The one writer of policy: signatures first; see the package's docstring for the words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from control_plane.registry.values import (
    Actor,
    Applied,
    AuditEntry,
    ConsumerKeyInfo,
    DocumentChange,
    Head,
    MintedKey,
    Put,
    Revision,
    SecretName,
    StoredDocument,
    StoreStatus,
    TokenRow,
)
from control_plane.resources.loading import RawDocument


class Registry:
    """Documents, keys, secrets and tokens: read from memory, changed in the database."""

    @property
    def head(self) -> Head:
        """The newest revision, halted or not: what the API shows and edits."""
        raise NotImplementedError

    @property
    def in_force(self) -> Head:
        """The newest revision that is not halted: what is pushed."""
        raise NotImplementedError

    def subscribe(self, listener: Callable[[Head], None]) -> None:
        """Call `listener` on the event loop with each new head in force."""
        raise NotImplementedError

    async def open(self) -> None:
        """Migrate the database and load it."""
        raise NotImplementedError

    async def close(self) -> None:
        """Stop watching and let the database go."""
        raise NotImplementedError

    def status(self) -> StoreStatus:
        """Return whether the database answers."""
        raise NotImplementedError

    async def apply(
        self, raws: Sequence[RawDocument], actor: Actor, *, dry_run: bool = False, action: str = "apply"
    ) -> Applied:
        """Create or replace every document of `raws`, or none."""
        raise NotImplementedError

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
        """Create or replace one document."""
        raise NotImplementedError

    async def delete(self, kind: str, name: str, actor: Actor, *, if_match: str | None = None) -> int:
        """Delete one document; a Consumer's keys are revoked with it. Returns the new revision."""
        raise NotImplementedError

    async def rollback(self, revision: int, actor: Actor) -> Applied:
        """Make the documents what they were at `revision`, as a new revision. Keys stay as they are."""
        raise NotImplementedError

    async def revisions(self, *, limit: int = 50, before: int | None = None) -> list[Revision]:
        """Return revisions, newest first, below `before`; their changes without fields."""
        raise NotImplementedError

    async def revision(self, number: int) -> Revision:
        """Return one revision with the fields it changed."""
        raise NotImplementedError

    async def diff(self, older: int, newer: int) -> tuple[DocumentChange, ...]:
        """Return what differs between two revisions; 0 is the empty beginning."""
        raise NotImplementedError

    async def documents_at(self, number: int) -> list[StoredDocument]:
        """Return the documents of one revision, sorted by kind and name."""
        raise NotImplementedError

    async def audit(self, *, limit: int = 100, before: int | None = None) -> list[AuditEntry]:
        """Return audit rows, newest first, with ids below `before`."""
        raise NotImplementedError

    async def record(
        self, actor: Actor, action: str, target: str, *, outcome: str = "ok", detail: str = ""
    ) -> None:
        """Write one audit row, for instance of a refused attempt."""
        raise NotImplementedError

    async def halt(self, revision: int, reason: str) -> None:
        """Take `revision` out of force for good, since the data plane refused it."""
        raise NotImplementedError

    async def create_key(
        self, consumer: str, actor: Actor, *, expires_at: datetime | None = None
    ) -> MintedKey:
        """Make a key for a Consumer; it is shown this once."""
        raise NotImplementedError

    async def keys(self, consumer: str) -> list[ConsumerKeyInfo]:
        """Return the keys of a Consumer, oldest first, revoked ones too."""
        raise NotImplementedError

    async def rotate_key(self, consumer: str, key_id: str, actor: Actor, *, overlap: timedelta) -> MintedKey:
        """Make a key in place of another, which goes on for `overlap`."""
        raise NotImplementedError

    async def revoke_key(self, consumer: str, key_id: str, actor: Actor) -> None:
        """End a key now."""
        raise NotImplementedError

    async def put_secret(self, name: str, values: Mapping[str, str], actor: Actor) -> bool:
        """Store a secret's values, encrypted, in place of those it had. Returns whether it is new."""
        raise NotImplementedError

    async def delete_secret(self, name: str, actor: Actor) -> None:
        """Delete a secret that no Backend names."""
        raise NotImplementedError

    async def secret_names(self) -> list[SecretName]:
        """Return the stored secrets, never their values."""
        raise NotImplementedError

    async def add_token(self, row: TokenRow, actor: Actor) -> None:
        """Keep a new API token."""
        raise NotImplementedError

    async def tokens(self) -> list[TokenRow]:
        """Return every token, oldest first, revoked ones too."""
        raise NotImplementedError

    async def token(self, token_id: str) -> TokenRow | None:
        """Return one token (from memory: works while the database is gone)."""
        raise NotImplementedError

    async def revoke_token(self, token_id: str, actor: Actor) -> None:
        """End a token now, on every replica within a second."""
        raise NotImplementedError
