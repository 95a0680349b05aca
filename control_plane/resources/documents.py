"""All documents together: one set, checked as a whole, ready to compile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from control_plane.resources.kinds import KINDS
from control_plane.resources.kinds.backend import BackendSpec
from control_plane.resources.kinds.consumer import ConsumerSpec
from control_plane.resources.kinds.model import ModelSpec
from control_plane.resources.kinds.pin import PinSpec
from control_plane.resources.kinds.policy import PolicySpec
from control_plane.resources.kinds.release import ReleaseSpec
from control_plane.resources.kinds.spec import Spec
from control_plane.resources.kinds.tier import TierSpec
from control_plane.resources.loading import RawDocument, read_files
from control_plane.resources.parsing import Document, parse_documents
from control_plane.resources.policies import policy_problems
from control_plane.resources.problems import InvalidDocumentsError, Problem
from control_plane.resources.references import reference_problems
from control_plane.resources.stand_ins import barred_fallbacks
from control_plane.resources.unbuilt import notices

S = TypeVar("S", bound=Spec)


@dataclass(frozen=True, slots=True)
class Documents:
    """A consistent set of documents by kind and name. `notices`, if collected: what has no effect."""

    backends: Mapping[str, BackendSpec] = field(default_factory=dict)
    models: Mapping[str, ModelSpec] = field(default_factory=dict)
    tiers: Mapping[str, TierSpec] = field(default_factory=dict)
    consumers: Mapping[str, ConsumerSpec] = field(default_factory=dict)
    policies: Mapping[str, PolicySpec] = field(default_factory=dict)
    releases: Mapping[str, ReleaseSpec] = field(default_factory=dict)
    pins: Mapping[str, PinSpec] = field(default_factory=dict)
    notices: tuple[Problem, ...] = ()

    def __len__(self) -> int:
        kinds = (self.backends, self.models, self.tiers, self.consumers, self.policies, self.releases)
        return sum(map(len, kinds)) + len(self.pins)


def check_documents(raws: Iterable[RawDocument]) -> Documents:
    """Check `raws` one by one and against each other.

    Raises:
        InvalidDocumentsError: with every problem found. References are checked only when each document
            is right by itself, so that one slip does not show as ten.
    """
    parsed, problems = parse_documents(raws)
    problems += duplicates(parsed)
    if problems:
        raise InvalidDocumentsError(problems)
    return assemble(parsed)


def assemble(parsed: Sequence[Document], changed: Set[str] | None = None) -> Documents:
    """Check documents, each right by itself and named once, against each other.

    Of two that contradict each other the later one is blamed, so what is being changed stands last. The set
    itself is sorted by name: it is the same in whatever order its documents were written. `changed` names the
    kinds that differ from a set that was right (None: any may); only then notices are not collected.

    Raises:
        InvalidDocumentsError: with every problem found.
    """
    problems = reference_problems(parsed, changed)
    if changed is None or "Policy" in changed:
        problems += policy_problems(parsed)
    if problems:
        raise InvalidDocumentsError(problems)
    specs: dict[type[Spec], dict[str, Spec]] = {kind: {} for kind in KINDS.values()}
    for document in sorted(parsed, key=lambda document: document.name):
        specs[type(document.spec)][document.name] = document.spec
    backends, models = _of(specs, BackendSpec), _of(specs, ModelSpec)
    told = (*notices(parsed), *barred_fallbacks(parsed, models, backends)) if changed is None else ()
    return Documents(
        backends=backends,
        models=models,
        tiers=_of(specs, TierSpec),
        consumers=_of(specs, ConsumerSpec),
        policies=_of(specs, PolicySpec),
        releases=_of(specs, ReleaseSpec),
        pins=_of(specs, PinSpec),
        notices=told,
    )


def load_documents(paths: Iterable[Path], stdin: bytes | None = None) -> Documents:
    """Read and check the files at `paths` (`-`: the bytes of `stdin`) as one set.

    Raises:
        InvalidDocumentsError: a file that cannot be read, or documents that are refused.
    """
    return check_documents(read_files(paths, stdin))


def _of(specs: Mapping[type[Spec], Mapping[str, Spec]], kind: type[S]) -> Mapping[str, S]:
    # Grouped by their class, so that each of these is of it.
    return cast("Mapping[str, S]", specs[kind])


def duplicates(parsed: Iterable[Document]) -> list[Problem]:
    """Return a problem for each document whose kind and name an earlier one has."""
    seen: dict[str, Document] = {}
    problems: list[Problem] = []
    for document in parsed:
        first = seen.setdefault(document.id, document)
        if first is not document:
            problems.append(
                document.problem(("metadata", "name"), f"is defined twice, first at {first.raw.place()}")
            )
    return problems
