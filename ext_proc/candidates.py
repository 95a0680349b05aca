"""Who may answer an exchange: the version that was assigned to it, then the Models that stand in for it.

Pure. A Backend without a key of its own never stands in for one that has one: the caller's key would be sent
where it was not meant to go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ext_proc.contract.snapshot import Backend, Model, Snapshot, Version


@dataclass(frozen=True, slots=True)
class Candidate:
    """One that may answer. `model` and `version` are None for a name that nobody configured."""

    model: Model | None
    version: Version | None
    backend: Backend


def stand_ins(
    snapshot: Snapshot, model: Model, assigned: Backend, choose: Callable[[Model], Version]
) -> Iterator[Candidate]:
    """Yield the candidates of `model`'s fallbacks, in order; `choose` assigns a version of each."""
    for name in model.fallbacks:
        fallback = snapshot.models.get(name)
        if fallback is None:
            continue
        version = choose(fallback)
        backend = snapshot.backends[version.backend]
        if assigned.credential is not None and backend.credential is None:
            continue
        yield Candidate(fallback, version, backend)
