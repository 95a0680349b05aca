"""What a mirror is told of each thing that it wants to exist."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from control_plane.registry.values import DocumentKey


class Reason(StrEnum):
    """Why a document is in force as it is wanted, or not."""

    ACCEPTED = "Accepted"
    INVALID = "Invalid"
    UNKNOWN_REFERENCE = "UnknownReference"
    CONFLICT = "Conflict"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was decided of one thing. `kind` and `name` are as they were sent, "" where that is no text."""

    kind: str
    name: str
    reason: Reason = Reason.ACCEPTED
    message: str = ""

    @property
    def key(self) -> DocumentKey:
        """Kind and name."""
        return self.kind, self.name


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one thing. Refused, it may be in force as it was accepted last: with `revision`."""

    kind: str
    name: str
    accepted: bool
    reason: Reason
    message: str
    in_force: bool
    revision: int | None


@dataclass(frozen=True, slots=True)
class Kept:
    """What is not wanted any more, and is there as long as something names it: `message` says what."""

    kind: str
    name: str
    message: str


@dataclass(frozen=True, slots=True)
class Mirrored:
    """What a mirror's wish came to: `revision` is the newest, a new one only if something changed."""

    revision: int
    items: tuple[Verdict, ...]
    kept: tuple[Kept, ...]
