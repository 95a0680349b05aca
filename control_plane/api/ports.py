"""What the API needs of the rest of the control plane, as Protocols of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from control_plane.registry.releases import Judged
from control_plane.registry.values import (
    Actor,
    Applied,
    AuditEntry,
    ConsumerKeyInfo,
    DocumentChange,
    Head,
    MintedKey,
    Purged,
    Put,
    Revision,
    SecretName,
    StoreStatus,
    TokenRow,
)
from control_plane.registry.verdicts import Mirrored
from control_plane.releases.machine import Action, Standing
from control_plane.resources.loading import RawDocument
from ext_proc.contract.cache import CacheEntry, CacheQuestion, CacheStatistics


class DocumentBook(Protocol):
    """Documents and their history. What changes something raises the registry's errors."""

    @property
    def head(self) -> Head:
        """The newest revision: what is shown and edited."""

    @property
    def in_force(self) -> Head:
        """The newest revision that is not halted: what is pushed."""

    def status(self) -> StoreStatus:
        """Return whether the database answers."""

    async def apply(self, raws: Sequence[RawDocument], actor: Actor, *, dry_run: bool = False) -> Applied:
        """Create or replace every document, or none."""

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

    async def delete(self, kind: str, name: str, actor: Actor, *, if_match: str | None = None) -> int:
        """Delete one document."""

    async def rollback(self, revision: int, actor: Actor) -> Applied:
        """Make the documents what they were at `revision`."""

    async def revisions(self, *, limit: int = 50, before: int | None = None) -> list[Revision]:
        """Return revisions, newest first."""

    async def revision(self, number: int) -> Revision:
        """Return one revision with the fields it changed."""

    async def diff(self, older: int, newer: int) -> tuple[DocumentChange, ...]:
        """Return what differs between two revisions."""

    async def audit(self, *, limit: int = 100, before: int | None = None) -> list[AuditEntry]:
        """Return audit rows, newest first."""

    async def record(
        self, actor: Actor, action: str, target: str, *, outcome: str = "ok", detail: str = ""
    ) -> None:
        """Write one audit row."""


class SecretBook(Protocol):
    """Consumer keys, API tokens and stored provider keys."""

    async def create_key(
        self, consumer: str, actor: Actor, *, expires_at: datetime | None = None
    ) -> MintedKey:
        """Make a Consumer's key."""

    async def keys(self, consumer: str) -> list[ConsumerKeyInfo]:
        """Return a Consumer's keys as they may be shown."""

    async def rotate_key(self, consumer: str, key_id: str, actor: Actor, *, overlap: timedelta) -> MintedKey:
        """Make a key in place of another."""

    async def revoke_key(self, consumer: str, key_id: str, actor: Actor) -> None:
        """End a key."""

    async def put_secret(self, name: str, values: Mapping[str, str], actor: Actor) -> bool:
        """Store a secret; return whether it is new."""

    async def delete_secret(self, name: str, actor: Actor) -> None:
        """Delete a secret that nothing names."""

    async def rotate_secrets(self, actor: Actor) -> int:
        """Seal every stored value again with a new key; return how many there are."""

    async def secret_names(self) -> list[SecretName]:
        """Return the stored secrets as they may be shown."""

    async def add_token(self, row: TokenRow, actor: Actor) -> None:
        """Keep a new API token."""

    async def tokens(self) -> list[TokenRow]:
        """Return every token."""

    async def revoke_token(self, token_id: str, actor: Actor) -> None:
        """End a token."""


class PurgeBook(Protocol):
    """The purges of cached answers."""

    @property
    def head(self) -> Head:
        """The newest revision."""

    async def purge(
        self,
        actor: Actor,
        *,
        tenant: str | None = None,
        model: str | None = None,
        version: str | None = None,
        key_prefix: str | None = None,
    ) -> Purged:
        """Void what meets every condition."""

    async def record(
        self, actor: Actor, action: str, target: str, *, outcome: str = "ok", detail: str = ""
    ) -> None:
        """Write one audit row."""


class ReleaseBook(Protocol):
    """The Releases on their way. What changes something raises the registry's errors."""

    @property
    def head(self) -> Head:
        """The newest revision."""

    async def act_on_release(self, name: str, action: Action, actor: Actor) -> Standing:
        """Promote, pause, resume or abort one."""

    async def release_verdict(self, name: str) -> Judged:
        """Return how far one is and what its numbers say."""


class MirrorBook(Protocol):
    """What is mirrored here from elsewhere."""

    @property
    def head(self) -> Head:
        """The newest revision."""

    @property
    def in_force(self) -> Head:
        """The newest revision that is not halted."""

    async def mirror(
        self,
        owner: str,
        raws: Sequence[RawDocument],
        secrets: Mapping[str, Mapping[str, str]] | None,
        actor: Actor,
    ) -> Mirrored:
        """Have all of `owner`, and nothing else of it, be as it is wanted."""


class Registry(DocumentBook, SecretBook, PurgeBook, ReleaseBook, MirrorBook, Protocol):
    """All of it, as the wiring hands it over."""


class Sidecar(Protocol):
    """One sidecar as the fleet shows it: a dataclass whose fields are answered as they are."""

    @property
    def id(self) -> str:
        """Its own name."""

    @property
    def workload(self) -> str:
        """The workload it belongs to."""

    @property
    def pushed(self) -> str:
        """The version it was sent last, "" before the first."""

    @property
    def acknowledged(self) -> str:
        """The version it said it serves, "" before the first."""

    @property
    def connected(self) -> bool:
        """Whether its stream is open now."""

    @property
    def serving(self) -> bool:
        """Whether it holds a policy of this control plane."""

    @property
    def in_force(self) -> bool:
        """Whether it serves what is in force."""

    @property
    def nack(self) -> str | None:
        """Why it refused what it was pushed last, or None."""

    @property
    def cache(self) -> CacheStatistics:
        """What its cache did, and holds now."""


class Fleet(Protocol):
    """The sidecars that follow the policy."""

    def sidecars(self) -> Sequence[Sidecar]:
        """Return every sidecar that is known, connected or not long gone."""


class Kept(Protocol):
    """One cached answer and who keeps it."""

    @property
    def entry(self) -> CacheEntry:
        """The answer."""

    @property
    def sidecars(self) -> Sequence[str]:
        """The sidecars that keep it."""


class Gathered(Protocol):
    """What sidecars answered."""

    @property
    def answers(self) -> Sequence[Kept]:
        """Cached answers, sorted by key."""

    @property
    def more(self) -> bool:
        """Whether there are others behind the last one."""

    @property
    def unanswered(self) -> Sequence[str]:
        """The sidecars of which answers are missing."""


class Caches(Protocol):
    """The caches of the connected sidecars. Both wait a bounded time for their answers."""

    async def ask(self, question: CacheQuestion) -> Gathered:
        """Return what they keep of it."""

    async def read(self, key: str) -> Gathered:
        """Return one answer with its body, or none."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Time and randomness, passed in. `entropy` gives that many random bytes."""

    now: Callable[[], datetime]
    entropy: Callable[[int], bytes]
