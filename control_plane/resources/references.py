"""Whether what a document names exists, and whether documents contradict each other (Policies apart)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from control_plane.resources.kinds.backend import BackendSpec
from control_plane.resources.kinds.consumer import ConsumerSpec
from control_plane.resources.kinds.model import ModelSpec
from control_plane.resources.kinds.pin import PinSpec
from control_plane.resources.kinds.policy import LOCAL_EMBEDDER, PolicySpec
from control_plane.resources.kinds.release import ReleaseSpec
from control_plane.resources.loading import FieldPath
from control_plane.resources.parsing import Document, near
from control_plane.resources.problems import Problem

# Which kinds name which.
USERS: Final[Mapping[str, Set[str]]] = {
    "Backend": {"Model"},
    "Model": {"Model", "Release", "Pin", "Policy"},
    "Tier": {"Model", "Consumer"},
}

Broken = Iterator[tuple[FieldPath, str]]

# Comparing one name with thousands takes milliseconds.
MAX_HINTS: Final = 20


def reference_problems(documents: Sequence[Document], changed: Set[str] | None = None) -> list[Problem]:
    """Return every broken reference and every contradiction between `documents`.

    `changed` names the kinds that differ from a set that was right (None: any may); the others are looked at
    only where they name one of these.
    """
    names: dict[str, set[str]] = {}
    versions: dict[str, set[str]] = {}
    for document in documents:
        names.setdefault(document.kind, set()).add(document.name)
        if isinstance(document.spec, ModelSpec):
            versions[document.name] = {version.name for version in document.spec.versions}
    known = _Known(names, versions)
    concerned = None if changed is None else set(changed).union(*(USERS.get(kind, ()) for kind in changed))
    problems = [
        document.problem(("spec", *path), message)
        for document in documents
        if concerned is None or document.kind in concerned
        for path, message in _broken(document, known)
    ]
    if changed is None or "Backend" in changed:
        problems += _default_problems(documents)
    if changed is None or "Model" in changed:
        problems += _alias_problems(documents)
    if changed is None or "Pin" in changed:
        problems += _pin_problems(documents)
    if changed is None or "Release" in changed:
        problems += _release_problems(documents)
    return problems


@dataclass(slots=True)
class _Known:
    names: Mapping[str, Set[str]]
    versions: Mapping[str, Set[str]]
    hints_left: int = MAX_HINTS

    def missing(self, kind: str, name: str, path: FieldPath) -> Broken:
        if name not in self.names.get(kind, ()):
            hint = self._hint(name, self.names.get(kind, ()))
            yield path, f'names the {kind} "{name}", which does not exist{hint}'

    def missing_version(self, model: str, name: str, path: FieldPath) -> Broken:
        if name not in self.versions.get(model, {name}):
            hint = self._hint(name, self.versions[model])
            yield path, f'names the version "{name}", which the Model "{model}" does not have{hint}'

    def _hint(self, name: str, known: Iterable[str]) -> str:
        if not self.hints_left:
            return ""
        self.hints_left -= 1
        found = near(name, sorted(known))
        return "" if found is None else f'; did you mean "{found}"?'


def _broken(document: Document, known: _Known) -> Broken:
    spec = document.spec
    if isinstance(spec, ModelSpec):
        yield from _broken_model(document.name, spec, known)
    elif isinstance(spec, ConsumerSpec) and spec.tier is not None:
        yield from known.missing("Tier", spec.tier, ("tier",))
    elif isinstance(spec, ReleaseSpec):
        yield from known.missing("Model", spec.model, ("model",))
        yield from known.missing_version(spec.model, spec.from_version, ("from",))
        yield from known.missing_version(spec.model, spec.to_version, ("to",))
    elif isinstance(spec, PinSpec):
        yield from known.missing("Model", spec.model, ("model",))
    elif isinstance(spec, PolicySpec) and spec.cache.semantic.embedder != LOCAL_EMBEDDER:
        yield from known.missing("Model", spec.cache.semantic.embedder, ("cache", "semantic", "embedder"))


def _broken_model(own_name: str, spec: ModelSpec, known: _Known) -> Broken:
    for index, version in enumerate(spec.versions):
        yield from known.missing("Backend", version.backend, ("versions", index, "backend"))
    for index, fallback in enumerate(spec.fallbacks):
        yield from known.missing("Model", fallback, ("fallbacks", index))
        if fallback == own_name:
            yield ("fallbacks", index), "names the Model itself"
    for index, rule in enumerate(spec.degrade):
        yield from known.missing("Model", rule.model, ("degrade", index, "model"))
        if rule.model == own_name:
            yield ("degrade", index, "model"), "names the Model itself"
        if rule.tier is not None:
            yield from known.missing("Tier", rule.tier, ("degrade", index, "tier"))


def _default_problems(documents: Iterable[Document]) -> Iterator[Problem]:
    marked = [item for item in documents if isinstance(item.spec, BackendSpec) and item.spec.default]
    for document in marked[1:]:
        yield document.problem(("spec", "default"), f"is true in {marked[0].id} too; mark one Backend only")


def _alias_problems(documents: Iterable[Document]) -> Iterator[Problem]:
    models = [(item, item.spec) for item in documents if isinstance(item.spec, ModelSpec)]
    owners = {document.name: document.id for document, _ in models}
    for document, spec in models:
        for index, alias in enumerate(spec.aliases):
            if alias in owners:
                path: FieldPath = ("spec", "aliases", index)
                yield document.problem(path, f'"{alias}" already means {owners[alias]}')
            owners.setdefault(alias, document.id)


def _release_problems(documents: Iterable[Document]) -> Iterator[Problem]:
    earlier: dict[str, list[tuple[Document, ReleaseSpec]]] = {}
    for document in documents:
        spec = document.spec
        if not isinstance(spec, ReleaseSpec):
            continue
        others = earlier.setdefault(spec.model, [])
        for other, other_spec in others:
            if not _are_disjoint(spec, other_spec):
                message = f"has {other.id} already; delete that one, or give both other callers or versions"
                yield document.problem(("spec", "model"), message)
                break
        others.append((document, spec))


def _are_disjoint(one: ReleaseSpec, other: ReleaseSpec) -> bool:
    """Say whether no request can be meant by both: no version in common, or no caller that matches both."""
    if {one.from_version, one.to_version}.isdisjoint({other.from_version, other.to_version}):
        return True
    lists = ((one.match.tiers, other.match.tiers), (one.match.consumers, other.match.consumers))
    if any(mine and theirs and set(mine).isdisjoint(theirs) for mine, theirs in lists):
        return True
    mine, theirs = (
        {name.lower(): value for name, value in spec.match.headers.items()} for spec in (one, other)
    )
    return any(mine[name] != theirs[name] for name in mine.keys() & theirs.keys())


def _pin_problems(documents: Iterable[Document]) -> Iterator[Problem]:
    owners: dict[tuple[str, str], Document] = {}
    for document in documents:
        if isinstance(document.spec, PinSpec):
            question = (document.spec.model, document.spec.match.last_user_message)
            first = owners.setdefault(question, document)
            if first is not document:
                path: FieldPath = ("spec", "match", "lastUserMessage")
                yield document.problem(path, f"is answered by {first.id} too, for the same Model; drop one")
