"""Purges of cached answers: which are kept, and what they mean to sidecars (pure).

A purge voids what was asked for until its moment, so one that voids more than was asked costs a call to a
provider, and one that voids less serves what must not be served: where room is short, purges become wider.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final

from control_plane.resources.documents import Documents
from control_plane.resources.kinds.consumer import ConsumerSpec
from ext_proc.contract.snapshot import Purge

MAX_PURGES: Final = 256
LONGEST_KEPT_S: Final = 30 * 86_400.0
"""How long an answer may be kept by a Policy that is forgotten; those that are there may say more."""

_TENANT: Final = "tenant:"
# How whose answers they are is written, beside `global`.
_PARTITIONS: Final = (_TENANT, "consumer:", "key:", "workload:")
_GLOBAL: Final = "global"


def partition_of(tenant: str) -> str:
    """Return the partition that `tenant` names: a Consumer's tenant, or a partition as it is shown.

    Shown are `tenant:NAME`, `key:DIGEST` (callers by their provider's key), `workload:NAME`, `consumer:NAME`
    and `global`; a tenant whose name looks like one of these is written with `tenant:` before it.
    """
    if tenant == _GLOBAL or tenant.startswith(_PARTITIONS):
        return tenant
    return _TENANT + tenant


def kept_for_s(documents: Documents) -> float:
    """Return for how long an answer may be kept under `documents`, and at least for `LONGEST_KEPT_S`."""
    longest_ms = max(
        (
            cache.ttl_ms + max(cache.stale_while_revalidate_ms or 0, cache.stale_if_error_ms or 0)
            for cache in (policy.cache for policy in documents.policies.values())
        ),
        default=0,
    )
    return max(longest_ms / 1000.0, LONGEST_KEPT_S)


def with_purge(purges: Sequence[Purge], new: Purge, kept_s: float) -> tuple[Purge, ...]:
    """Return `purges`, the oldest first, with `new` at their end.

    Those that `new` makes needless, and those older than `kept_s`, are left out; of more than `MAX_PURGES`
    the oldest become one. `new` is never before the last of them: a clock that went back does not void less.
    """
    if purges:
        new = replace(new, at_s=max(new.at_s, purges[-1].at_s))
    kept = [purge for purge in purges if purge.at_s > new.at_s - kept_s and not _covers(new, purge)]
    kept.append(new)
    while len(kept) > MAX_PURGES:
        wider = _merged(kept[0], kept[1])
        kept = [wider, *(purge for purge in kept[2:] if not _covers(wider, purge))]
    return tuple(kept)


def effective_purges(purges: Sequence[Purge], consumers: Mapping[str, ConsumerSpec]) -> tuple[Purge, ...]:
    """Return what sidecars get: a tenant's purge counts for the partitions of its Consumers too.

    What would be more than `MAX_PURGES` by that is widened to every tenant.
    """
    members: dict[str, list[str]] = {}
    for name, spec in consumers.items():
        members.setdefault(_TENANT + spec.tenant, []).append(f"consumer:{name}")
    room = MAX_PURGES - len(purges)
    found: list[Purge] = []
    for purge in purges:
        below = members.get(purge.tenant, []) if purge.tenant is not None else []
        if len(below) > room:
            found.append(replace(purge, tenant=None))
            continue
        room -= len(below)
        found += [purge, *(replace(purge, tenant=partition) for partition in below)]
    return tuple(found)


def _covers(wide: Purge, narrow: Purge) -> bool:
    """Say whether all that `narrow` voids is void by `wide`."""
    return (
        wide.at_s >= narrow.at_s
        and wide.tenant in (None, narrow.tenant)
        and wide.model in (None, narrow.model)
        and wide.version in (None, narrow.version)
        and (wide.key_prefix is None or (narrow.key_prefix or "").startswith(wide.key_prefix))
    )


def _merged(one: Purge, other: Purge) -> Purge:
    """Return the narrowest purge that voids what both void."""
    model = one.model if one.model == other.model else None
    return Purge(
        at_s=max(one.at_s, other.at_s),
        tenant=one.tenant if one.tenant == other.tenant else None,
        model=model,
        version=one.version if model is not None and one.version == other.version else None,
        key_prefix=_common_start(one.key_prefix or "", other.key_prefix or "") or None,
    )


def _common_start(one: str, other: str) -> str:
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return "".join(char for char, _ in pairs)
