"""What the registry gives and takes: plain immutable values. Knows no database and no HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from control_plane.releases.machine import Standing
from control_plane.resources.documents import Documents
from control_plane.resources.parsing import Document
from control_plane.resources.problems import Problem
from ext_proc.contract.snapshot import ConsumerKey, Purge

DocumentKey = tuple[str, str]
"""Kind and name."""

MAX_SECRET_VALUE_LENGTH: Final = 16 * 1024
MAX_SECRET_KEYS: Final = 64


@dataclass(frozen=True, slots=True)
class Actor:
    """Who changes something.

    `name` is the token's name, "files" for documents given at start, "control plane" for itself. `role` is
    viewer, editor or admin ("" for both of these); `source` the remote address, or "local".
    """

    name: str
    role: str
    source: str = ""


ITSELF: Final = Actor("control plane", "", "local")
FILES: Final = Actor("files", "", "local")


class ChangeAction(StrEnum):
    """What becomes of one document."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field (`spec.versions[0].weight`) before and after, as JSON values; what is absent is None."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """What becomes of one document, and the fields that differ (for an update)."""

    kind: str
    name: str
    action: ChangeAction
    fields: tuple[FieldChange, ...] = ()

    @property
    def document(self) -> str:
        """`Kind/name`."""
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """One document as kept. `revision` is the one that last changed it; `content` its JSON as written.

    `owner` is whose mirror wrote it and alone changes it; "" for all that people and files write.
    """

    kind: str
    name: str
    revision: int
    content: bytes
    changed_at: datetime
    owner: str = ""

    @property
    def key(self) -> DocumentKey:
        """Kind and name."""
        return self.kind, self.name

    @property
    def etag(self) -> str:
        """The entity tag of this version, quoted: `"r12"`."""
        return f'"r{self.revision}"'

    @property
    def value(self) -> dict[str, Any]:
        """The document as written, a fresh copy."""
        found: dict[str, Any] = json.loads(self.content)
        return found


class RevisionState(StrEnum):
    """Whether a revision may be in force."""

    ACCEPTED = "accepted"
    HALTED = "halted"


@dataclass(frozen=True, slots=True)
class Revision:
    """One change. `action` is apply, put, delete, rollback, key, secret, purge, release, mirror or start.

    `reason` says why it is halted. `changes` carries fields only where one revision is asked for. `detail`
    says what a revision of keys, secrets, purges or Releases changed, in words that hold no value.
    """

    revision: int
    at: datetime
    actor: str
    source: str
    action: str
    state: RevisionState = RevisionState.ACCEPTED
    reason: str = ""
    changes: tuple[DocumentChange, ...] = ()
    rolled_back_to: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Who did or tried what, when and from where. `outcome` is "ok" or the kind of refusal."""

    id: int
    at: datetime
    actor: str
    role: str
    source: str
    action: str
    target: str
    revision: int | None
    outcome: str
    detail: str


@dataclass(frozen=True, slots=True)
class ConsumerKeyInfo:
    """A Consumer's key as it may be shown: never the key, only its last four characters."""

    id: str
    consumer: str
    hint: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A Consumer's key as kept: what may be shown, and its keyed digest (hex)."""

    info: ConsumerKeyInfo
    digest: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class MintedKey:
    """A new key, on its one way to whoever asked for it."""

    id: str
    consumer: str
    key: str = field(repr=False)
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TokenRow:
    """An API token as kept. `role` is viewer, editor, admin or sidecar; `scopes` () is everything."""

    id: str
    name: str
    role: str
    scopes: tuple[str, ...]
    digest: bytes = field(repr=False)
    salt: bytes = field(repr=False)
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SecretName:
    """A stored secret as it may be shown: its name and the names of its values.

    `owner` is whose mirror stored it and alone changes it, "" for people.
    """

    name: str
    keys: tuple[str, ...]
    changed_at: datetime
    owner: str = field(default="", repr=False)  # in no answer


@dataclass(frozen=True, slots=True)
class Head:
    """Everything at one revision, immutable, in memory.

    `stored` and `parsed` are sorted by kind and name. `consumer_keys` maps the keyed digest (hex) to what the
    data plane knows of the key; `secrets` maps (name, key) to the value and leaves by the push stream only.
    `purges` are those of cached answers, the oldest first; `releases` says by name how far each Release is.
    """

    revision: int
    stored: Mapping[DocumentKey, StoredDocument] = field(
        default_factory=lambda: MappingProxyType({}), repr=False
    )
    parsed: Mapping[DocumentKey, Document] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    documents: Documents = field(default_factory=Documents, repr=False)
    consumer_keys: Mapping[str, ConsumerKey] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    key_salt: str = field(default="", repr=False)
    secrets: Mapping[tuple[str, str], bytes] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    purges: tuple[Purge, ...] = field(default=(), repr=False)
    releases: Mapping[str, Standing] = field(default_factory=lambda: MappingProxyType({}), repr=False)


@dataclass(frozen=True, slots=True)
class Applied:
    """What a change did, or would do: every document named, unchanged ones too; `revision` is the head's."""

    revision: int
    changes: tuple[DocumentChange, ...]
    warnings: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Purged:
    """What became void by a revision, with names as they are kept: answers that were asked for until `at`."""

    revision: int
    at: datetime
    tenant: str | None = None
    model: str | None = None
    version: str | None = None
    key_prefix: str | None = None


@dataclass(frozen=True, slots=True)
class Put:
    """One document after it was put, and whether it is new. Unchanged, `stored` is the one there was."""

    stored: StoredDocument
    created: bool
    warnings: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """Whether the database answers; `reason` and `since` say why not, and since when."""

    reachable: bool
    reason: str = ""
    since: datetime | None = None
    database: str = ""
