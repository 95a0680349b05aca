"""What the control plane says of what it was told (pure). Trusts no answer's form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from control_plane.controller.resources import Key


class MalformedAnswerError(Exception):
    """The answer is not of the mirror's form: no control plane of this version answers there."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a resource is accepted as it is, and why not.

    `in_force`: an older spec of it is, at least. `unresolved` is why a Secret that it names does not serve:
    a reason and a sentence.
    """

    accepted: bool
    reason: str
    message: str = ""
    in_force: bool = False
    unresolved: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What was said of each resource, in the revision that this made."""

    revision: int
    of: Mapping[Key, Verdict] = field(repr=False)
    kept: tuple[str, ...] = ()

    @property
    def is_settled(self) -> bool:
        """Whether everything that is wanted is accepted, and all else is gone."""
        return not self.kept and all(verdict.accepted for verdict in self.of.values())


@dataclass(frozen=True, slots=True)
class Programming:
    """Whether a resource is in what sidecars are given, and how many of them have it."""

    programmed: bool
    current: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a Release is."""

    phase: str
    step: int
    share: float
    reason: str


@dataclass(frozen=True, slots=True)
class Standing:
    """What is in force, as of the newest revision."""

    revision: int
    programming: Mapping[Key, Programming] = field(default_factory=dict, repr=False)
    progress: Mapping[str, Progress] = field(default_factory=dict, repr=False)


def verdicts_of(answer: object) -> Verdicts:
    """Read the answer to the mirror's PUT.

    Raises:
        MalformedAnswerError: it is none.
    """
    value = _mapping(answer)
    of = {
        key: Verdict(
            item.get("accepted") is True,
            str(item.get("reason") or "Invalid"),
            str(item.get("message") or ""),
            item.get("inForce") is True,
        )
        for key, item in _items(value)
    }
    kept = value.get("kept")
    names = tuple(f"{key.kind}/{key.name}" for key, _ in _items({"items": kept})) if kept else ()
    return Verdicts(_count(value.get("revision")), of, names)


def standing_of(answer: object) -> Standing:
    """Read the answer to the mirror's GET.

    Raises:
        MalformedAnswerError: it is none.
    """
    value = _mapping(answer)
    programming = {}
    for key, item in _items(value):
        sidecars = item.get("sidecars") or {}
        programming[key] = Programming(
            item.get("programmed") is True,
            _count(_mapping(sidecars).get("current")),
            _count(_mapping(sidecars).get("total")),
        )
    progress = {
        str(name): Progress(
            str(found.get("phase") or "pending"),
            _count(found.get("step")),
            _share(found.get("share")),
            str(found.get("reason") or ""),
        )
        for name, found in (
            (name, _mapping(found)) for name, found in _mapping(value.get("releases") or {}).items()
        )
    }
    return Standing(_count(value.get("revision")), programming, progress)


def _items(value: Mapping[str, Any]) -> Iterator[tuple[Key, Mapping[str, Any]]]:
    items = value.get("items")
    if not isinstance(items, list):
        raise MalformedAnswerError("the control plane's answer has no items; is --server its API?")
    for item in items:
        found = _mapping(item)
        yield Key(str(found.get("kind")), str(found.get("name"))), found


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise MalformedAnswerError("the control plane's answer is not the mirror's; is --server its API?")
    return value


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _share(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
