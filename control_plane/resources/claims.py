"""What a document claims for itself alone: being the default, names, a question, callers of a Model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from control_plane.resources.kinds.backend import BackendSpec
from control_plane.resources.kinds.model import ModelSpec
from control_plane.resources.kinds.pin import PinSpec
from control_plane.resources.kinds.release import ReleaseSpec
from control_plane.resources.loading import FieldPath
from control_plane.resources.parsing import Document
from ext_proc.contract.policies import rank

Broken = Iterator[tuple[FieldPath, str]]
"""Fields within a document, and what is wrong with each."""


class Claims:
    """What the documents that were taken in claim. Of two that claim the same the later one is blamed."""

    def __init__(self) -> None:
        self._default: Document | None = None
        self._models: dict[str, str] = {}
        self._questions: dict[tuple[str, str], Document] = {}
        self._releases: dict[str, list[tuple[Document, ReleaseSpec]]] = {}

    def name(self, document: Document) -> None:
        """Take in the name of a Model, whatever else it claims."""
        self._models[document.name] = document.id

    def take(self, document: Document, *, anyway: bool = True) -> list[tuple[FieldPath, str]]:
        """Return what `document` claims though others have it; without such, or `anyway`, it is taken in."""
        broken = list(self._broken(document))
        if anyway or not broken:
            self._add(document)
        return broken

    def _broken(self, document: Document) -> Broken:
        spec = document.spec
        if isinstance(spec, BackendSpec):
            if spec.default and self._default is not None:
                yield ("spec", "default"), f"is true in {self._default.id} too; mark one Backend only"
        elif isinstance(spec, ModelSpec):
            yield from self._broken_names(document, spec)
        elif isinstance(spec, PinSpec):
            first = self._questions.get((spec.model, spec.match.last_user_message))
            if first is not None:
                path: FieldPath = ("spec", "match", "lastUserMessage")
                yield path, f"is answered by {first.id} too, for the same Model; drop one"
        elif isinstance(spec, ReleaseSpec):
            for other, theirs in self._releases.get(spec.model, ()):
                if not _are_disjoint(spec, theirs):
                    message = (
                        f"has {other.id} already; delete that one, or give both other callers or versions"
                    )
                    yield ("spec", "model"), message
                    break

    def _broken_names(self, document: Document, spec: ModelSpec) -> Broken:
        owner = self._models.get(document.name, document.id)
        if owner != document.id:
            yield ("metadata", "name"), f"is an alias of {owner}"
        mine = {document.name}
        for index, alias in enumerate(spec.aliases):
            owner = document.id if alias in mine else self._models.get(alias, "")
            if owner:
                yield ("spec", "aliases", index), f'"{alias}" already means {owner}'
            mine.add(alias)

    def _add(self, document: Document) -> None:
        spec = document.spec
        if isinstance(spec, BackendSpec):
            if spec.default and self._default is None:
                self._default = document
        elif isinstance(spec, ModelSpec):
            for name in (document.name, *spec.aliases):
                self._models.setdefault(name, document.id)
        elif isinstance(spec, PinSpec):
            self._questions.setdefault((spec.model, spec.match.last_user_message), document)
        elif isinstance(spec, ReleaseSpec):
            self._releases.setdefault(spec.model, []).append((document, spec))


def _are_disjoint(one: ReleaseSpec, other: ReleaseSpec) -> bool:
    """Say whether no request can be meant by both: no version in common, or no caller that matches both."""
    if {one.from_version, one.to_version}.isdisjoint({other.from_version, other.to_version}):
        return True
    lists = ((one.match.tiers, other.match.tiers), (one.match.consumers, other.match.consumers))
    if any(mine and theirs and set(mine).isdisjoint(theirs) for mine, theirs in lists):
        return True
    if one.match.workloads and other.match.workloads:
        pairs = product(one.match.workloads, other.match.workloads)
        if not any(_may_mean_one(mine, theirs) for mine, theirs in pairs):
            return True
    mine, theirs = (
        {name.lower(): value for name, value in spec.match.headers.items()} for spec in (one, other)
    )
    return any(mine[name] != theirs[name] for name in mine.keys() & theirs.keys())


def _may_mean_one(one: str, other: str) -> bool:
    """Say whether some name matches both, each an exact name or a prefix pattern."""
    if not one.endswith("*"):
        return rank((other,), one) is not None
    if not other.endswith("*"):
        return rank((one,), other) is not None
    return one.startswith(other[:-1]) or other.startswith(one[:-1])
