"""Policies beside each other: exact ties, and requireConsumer against failOpen; and a Policy's flat settings.

Which Policy wins is `ext_proc.contract.policies`; this module only refuses what that order cannot decide.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_
from typing import Final

from control_plane.resources.kinds.policy import PolicySpec, VersionPolicy
from control_plane.resources.kinds.spec import Spec
from control_plane.resources.loading import FieldPath
from control_plane.resources.parsing import Document
from control_plane.resources.problems import Problem
from control_plane.resources.unbuilt import is_unbuilt
from ext_proc.contract.policies import rank
from ext_proc.contract.snapshot import Setting

# One value per workload, so it stands in the snapshot itself.
_PER_WORKLOAD: Final = "fail_open"
DOOR: Final[FieldPath] = ("spec", "requireConsumer")
OPEN_DOOR: Final = "needs failOpen: false for the same workloads: failing open lets callers in unseen"
DEFAULT_FAIL_OPEN: Final = True


def flat_settings(policy: PolicySpec | VersionPolicy) -> dict[str, Setting]:
    """Return the built fields that `policy` sets, by dotted attribute path (`cache.ttl_ms`).

    The target and what is one value per workload are left out.
    """
    return {
        ".".join(path): value
        for path, value, written in leaves(policy, (), ())
        if path[0] not in ("target", _PER_WORKLOAD) and not is_unbuilt("Policy", written)
    }


def fail_open_in_force(policies: dict[str, PolicySpec], workload: str) -> bool:
    """Return `failOpen` for `workload`: that of the Policy that names it most specifically."""
    found: tuple[tuple[int, int], bool] | None = None
    for policy in policies.values():
        if _PER_WORKLOAD not in policy.model_fields_set:
            continue
        how = rank(policy.target.workloads, workload)
        if how is not None and (found is None or how > found[0]):
            found = how, policy.fail_open
    return DEFAULT_FAIL_OPEN if found is None else found[1]


def policy_problems(documents: Sequence[Document]) -> list[Problem]:
    """Return every tie between Policies and every requireConsumer that failing open would undo."""
    policies = [item for item in documents if isinstance(item.spec, PolicySpec)]
    ties = Ties()
    found = [item.problem(path, message) for item in policies for path, message in ties.take(item)]
    return [*found, *(item.problem(DOOR, OPEN_DOOR) for item in open_doors(policies))]


class Ties:
    """The Policies that were taken in, and which fields they set for whom.

    One bit a Policy, per pattern and per field: what ties with a Policy is three ORs and an AND, so that
    thousands are compared in linear time. Two patterns that match one name equally specifically are the same
    pattern.
    """

    def __init__(self) -> None:
        self._targets: tuple[dict[str, int], ...] = ({}, {}, {})
        self._owners: dict[tuple[str, ...], int] = {}
        self._documents: list[Document] = []

    def take(self, document: Document, *, anyway: bool = True) -> list[tuple[FieldPath, str]]:
        """Return what another Policy sets for just the same; without such, or `anyway`, it is taken in."""
        policy = _policy(document)
        patterns = (policy.target.models, policy.target.tiers, policy.target.workloads)
        rivals = -1
        for seen, mine in zip(self._targets, patterns, strict=True):
            rivals &= reduce(or_, (seen.get(pattern, 0) for pattern in mine), 0)
        set_here = [item for item in leaves(policy, (), ("spec",)) if item[0][0] != "target"]
        broken: list[tuple[FieldPath, str]] = []
        for path, _, written in set_here:
            if tied := rivals & self._owners.get(path, 0):
                first = self._documents[(tied & -tied).bit_length() - 1]
                message = f"is set by {first.id} too, for a target exactly as specific; drop one of them"
                broken.append((written, message))
        if broken and not anyway:
            return broken
        bit = 1 << len(self._documents)
        self._documents.append(document)
        for path, _, _ in set_here:
            self._owners[path] = self._owners.get(path, 0) | bit
        for seen, mine in zip(self._targets, patterns, strict=True):
            for pattern in mine:
                seen[pattern] = seen.get(pattern, 0) | bit
        return broken


def open_doors(documents: Sequence[Document]) -> Iterator[Document]:
    """Yield each of these Policies whose requireConsumer failing open would undo."""
    policies = [_policy(document) for document in documents]
    if not any(policy.require_consumer for policy in policies):
        return
    patterns = {pattern for policy in policies for pattern in policy.target.workloads}
    # NUL is in no name, so a representative of a prefix is never mistaken for an exact name.
    names = sorted(f"{pattern[:-1]}\0" if pattern.endswith("*") else pattern for pattern in patterns)
    open_doors = _open_names(policies, names)
    for document, policy in zip(documents, policies, strict=True):
        if not policy.require_consumer:
            continue
        for pattern in policy.target.workloads:
            begin, end = _matching(names, pattern)
            if open_doors[end] > open_doors[begin]:
                yield document
                break


def _matching(names: Sequence[str], pattern: str) -> tuple[int, int]:
    """Return the range of `names`, which are sorted, that `pattern` matches."""
    if not pattern.endswith("*"):
        return bisect_left(names, pattern), bisect_right(names, pattern)
    prefix = pattern[:-1]
    return bisect_left(names, prefix), bisect_right(names, prefix, key=lambda name: name[: len(prefix)])


def _open_names(policies: Sequence[PolicySpec], names: Sequence[str]) -> list[int]:
    """Return, for each position in `names`, how many names before it fail open."""
    decided: dict[str, bool] = {}
    for policy in policies:
        if _PER_WORKLOAD in policy.model_fields_set:
            for pattern in policy.target.workloads:
                decided.setdefault(pattern, policy.fail_open)
    lengths = sorted({len(pattern) for pattern in decided if pattern.endswith("*")}, reverse=True)
    counts = [0]
    for name in names:
        found = decided.get(name)
        for length in lengths:
            if found is not None:
                break
            if length - 1 <= len(name):
                found = decided.get(f"{name[: length - 1]}*")
        counts.append(counts[-1] + (DEFAULT_FAIL_OPEN if found is None else found))
    return counts


def _policy(document: Document) -> PolicySpec:
    if not isinstance(document.spec, PolicySpec):
        raise TypeError(document.kind)
    return document.spec


def leaves(
    spec: Spec, path: tuple[str, ...] = (), written: FieldPath = ()
) -> Iterator[tuple[tuple[str, ...], Setting, FieldPath]]:
    """Yield attribute path, value and written path of each field that `spec` sets."""
    for attribute, item in type(spec).model_fields.items():
        if attribute not in spec.model_fields_set:
            continue
        value = getattr(spec, attribute)
        here, there = (*path, attribute), (*written, item.alias or attribute)
        if isinstance(value, Spec):
            yield from leaves(value, here, there)
        else:
            yield here, value, there
