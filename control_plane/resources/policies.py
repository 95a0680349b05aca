"""Policies beside each other: exact ties, and requireConsumer against failOpen; and a Policy's flat settings.

Which Policy wins is `ext_proc.contract.policies`; this module only refuses what that order cannot decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

from control_plane.resources.kinds.policy import PolicySpec
from control_plane.resources.kinds.spec import Spec
from control_plane.resources.loading import FieldPath
from control_plane.resources.parsing import Document
from control_plane.resources.problems import Problem
from control_plane.resources.unbuilt import is_unbuilt
from ext_proc.contract.policies import rank
from ext_proc.contract.snapshot import Setting

# One value per workload, so it stands in the snapshot itself.
_PER_WORKLOAD: Final = "fail_open"
DEFAULT_FAIL_OPEN: Final = True


def flat_settings(policy: PolicySpec) -> dict[str, Setting]:
    """Return the built fields that `policy` sets, by dotted attribute path (`cache.ttl_ms`).

    The target and what is one value per workload are left out.
    """
    return {
        ".".join(path): value
        for path, value, written in _leaves(policy, (), ())
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
    return [*_ties(policies), *_open_doors(policies)]


def _ties(documents: Sequence[Document]) -> Iterator[Problem]:
    for earlier, later in combinations(documents, 2):
        first, second = _policy(earlier), _policy(later)
        targets = (
            (first.target.models, second.target.models),
            (first.target.tiers, second.target.tiers),
            (first.target.workloads, second.target.workloads),
        )
        # Two patterns that match one name equally specifically are the same pattern.
        if not all(set(one) & set(other) for one, other in targets):
            continue
        taken = {path: written for path, _, written in _leaves(first, (), ("spec",)) if path[0] != "target"}
        for path, _, written in _leaves(second, (), ("spec",)):
            if path in taken:
                yield later.problem(
                    written, f"is set by {earlier.id} too, for a target exactly as specific; drop one of them"
                )


def _open_doors(documents: Sequence[Document]) -> Iterator[Problem]:
    policies = {document.name: _policy(document) for document in documents}
    patterns = {pattern for policy in policies.values() for pattern in policy.target.workloads}
    # NUL is in no name, so a representative of a prefix is never mistaken for an exact name.
    names = {f"{pattern[:-1]}\0" if pattern.endswith("*") else pattern for pattern in patterns}
    for document in documents:
        policy = policies[document.name]
        if not policy.require_consumer:
            continue
        concerned = (name for name in names if rank(policy.target.workloads, name) is not None)
        if any(fail_open_in_force(policies, name) for name in concerned):
            yield document.problem(
                ("spec", "requireConsumer"),
                "needs failOpen: false for the same workloads: failing open lets callers in unseen",
            )


def _policy(document: Document) -> PolicySpec:
    if not isinstance(document.spec, PolicySpec):
        raise TypeError(document.kind)
    return document.spec


def _leaves(
    spec: Spec, path: tuple[str, ...], written: FieldPath
) -> Iterator[tuple[tuple[str, ...], Setting, FieldPath]]:
    """Yield attribute path, value and written path of each field that `spec` sets."""
    for attribute, item in type(spec).model_fields.items():
        if attribute not in spec.model_fields_set:
            continue
        value = getattr(spec, attribute)
        here, there = (*path, attribute), (*written, item.alias or attribute)
        if isinstance(value, Spec):
            yield from _leaves(value, here, there)
        else:
            yield here, value, there
