"""Whether what a document names exists, and whether documents contradict each other (Policies apart)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from control_plane.resources.claims import Broken, Claims
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

NAMES_ITSELF: Final = "names the Model itself"

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
    return [*problems, *_claim_problems(documents, changed)]


@dataclass(frozen=True, slots=True)
class Named:
    """One place (within `spec`) that names another document; `version`: that version of the Model."""

    kind: str
    name: str
    path: FieldPath
    version: str | None = None


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


def named_by(document: Document) -> Iterator[Named]:
    """Yield each place in which `document` names another."""
    spec = document.spec
    if isinstance(spec, ModelSpec):
        yield from _named_by_model(spec)
    elif isinstance(spec, ConsumerSpec) and spec.tier is not None:
        yield Named("Tier", spec.tier, ("tier",))
    elif isinstance(spec, ReleaseSpec):
        yield Named("Model", spec.model, ("model",))
        yield Named("Model", spec.model, ("from",), spec.from_version)
        yield Named("Model", spec.model, ("to",), spec.to_version)
    elif isinstance(spec, PinSpec):
        yield Named("Model", spec.model, ("model",))
    elif isinstance(spec, PolicySpec) and spec.cache.semantic.embedder != LOCAL_EMBEDDER:
        yield Named("Model", spec.cache.semantic.embedder, ("cache", "semantic", "embedder"))


def _named_by_model(spec: ModelSpec) -> Iterator[Named]:
    for index, version in enumerate(spec.versions):
        yield Named("Backend", version.backend, ("versions", index, "backend"))
        embedder = version.policy.cache.semantic.embedder if version.policy else LOCAL_EMBEDDER
        if embedder != LOCAL_EMBEDDER:
            path = ("versions", index, "policy", "cache", "semantic", "embedder")
            yield Named("Model", embedder, path)
    for index, fallback in enumerate(spec.fallbacks):
        yield Named("Model", fallback, ("fallbacks", index))
    for index, rule in enumerate(spec.degrade):
        yield Named("Model", rule.model, ("degrade", index, "model"))
        if rule.tier is not None:
            yield Named("Tier", rule.tier, ("degrade", index, "tier"))


def named_itself(document: Document) -> Iterator[Named]:
    """Yield each place in which a Model names itself, where it must not."""
    for named in named_by(document):
        if (named.kind, named.name) == (document.kind, document.name):
            yield named


def _broken(document: Document, known: _Known) -> Broken:
    for named in named_by(document):
        if named.version is None:
            yield from known.missing(named.kind, named.name, named.path)
        else:
            yield from known.missing_version(named.name, named.version, named.path)
    for named in named_itself(document):
        yield named.path, NAMES_ITSELF


def _claim_problems(documents: Iterable[Document], changed: Set[str] | None) -> Iterator[Problem]:
    claims = Claims()
    by_kind: dict[str, list[Document]] = {}
    for document in documents:
        by_kind.setdefault(document.kind, []).append(document)
    for document in by_kind.get("Model", ()):
        claims.name(document)
    for kind in ("Backend", "Model", "Pin", "Release"):
        if changed is None or kind in changed:
            for document in by_kind.get(kind, ()):
                for path, message in claims.take(document):
                    yield document.problem(path, message)
