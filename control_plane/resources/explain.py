"""Which Policy sets what for one model, tier and workload (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from control_plane.resources.documents import Documents
from control_plane.resources.kinds.policy import PolicySpec
from control_plane.resources.kinds.spec import Spec
from control_plane.resources.parsing import spec_in
from control_plane.resources.policies import leaves
from control_plane.resources.quantities import duration_text, size_text
from ext_proc.contract.policies import rank, settings_in_force
from ext_proc.contract.snapshot import PolicyLayer


class Effective(NamedTuple):
    """One field of a Policy in force: its written name and value, and who set it (None: the default).

    That is a Policy's name, or `version NAME` for what a version of the Model says itself.
    """

    field: str
    value: Any
    policy: str | None


class UnknownVersionError(Exception):
    """The Model has no such version; `known` are those that it has."""

    def __init__(self, known: Sequence[str]) -> None:
        super().__init__()
        self.known = known


def explain(documents: Documents, model: str, tier: str, workload: str, version: str = "") -> list[Effective]:
    """Return every field of a Policy as it is in force, in the order of the fields.

    `model` may be an alias; a name nobody configured, "" for no tier and any workload are right too. Fields
    that have no effect yet are explained like the others.

    Raises:
        UnknownVersionError: `version` is not "", and none of the Model's.
    """
    name = next((owner for owner, spec in documents.models.items() if model in spec.aliases), model)
    versions = documents.models[name].versions if name in documents.models else ()
    if version and not any(one.name == version for one in versions):
        raise UnknownVersionError([one.name for one in versions])
    found = settings_in_force(_layers(documents, workload), name, tier)
    for one in versions:
        if one.name == version and one.policy is not None:
            own = {".".join(path): value for path, value, _ in leaves(one.policy)}
            found |= {attribute: (value, f"version {version}") for attribute, value in own.items()}
    effective = []
    for attribute, written, default in _fields(PolicySpec, (), ()):
        value, policy = found.get(attribute, (default, None))
        effective.append(Effective(written, _as_written(attribute, value), policy))
    return effective


def _layers(documents: Documents, workload: str) -> Iterator[PolicyLayer]:
    for name, spec in documents.policies.items():
        workload_rank = rank(spec.target.workloads, workload)
        if workload_rank is not None:
            settings = {".".join(path): value for path, value, _ in leaves(spec) if path[0] != _TARGET}
            yield PolicyLayer(name, spec.target.models, spec.target.tiers, workload_rank, settings)


def _fields(
    spec: type[Spec], path: tuple[str, ...], written: tuple[str, ...]
) -> Iterator[tuple[str, str, Any]]:
    """Yield attribute path, written path and default of every field, parts of optional mappings too."""
    for attribute, item in spec.model_fields.items():
        if not path and attribute == _TARGET:
            continue
        here, there = (*path, attribute), (*written, item.alias or attribute)
        part = spec_in(item.annotation)
        if part is not None:
            yield from _fields(part, here, there)
        else:
            yield ".".join(here), ".".join(there), item.get_default(call_default_factory=True)


def _as_written(attribute: str, value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, int) and attribute.endswith("_ms"):
        return duration_text(value)
    if isinstance(value, int) and attribute.endswith("_bytes"):
        return size_text(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


_TARGET: Final = "target"
