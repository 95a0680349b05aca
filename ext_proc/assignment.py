"""Which version of a Model answers a caller: the weights, and the Releases that are on their way (pure).

A caller has one place in [0, 1) under each salt, and a version covers a range of places. A Release's new
version covers the places below its share, so a share that grows moves callers one way only: who is on the
new version at 5 % stays on it at 25 %. The salt of a Release is its own, so that another Release does not
begin with the same callers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ext_proc.contract.headers import SESSION
from ext_proc.contract.snapshot import Model, Rollout, StickyBy, Version

PLAIN_STICKY: tuple[StickyBy, ...] = ("consumer", "session")
_FORWARDED_FOR = "x-forwarded-for"


@dataclass(frozen=True, slots=True)
class Caller:
    """What of a request decides its version.

    `consumer` and `tier` are "" without one; names in `headers` are lower-case.
    """

    headers: Mapping[str, str]
    consumer: str = ""
    tenant: str = ""
    tier: str = ""


@dataclass(frozen=True, slots=True)
class Assigned:
    """A version, and the Release that decided between its two ("": none did)."""

    version: Version
    release: str = ""


def assign(model: Model, caller: Caller, draw: Callable[[], float]) -> Assigned:
    """Return the version of `model` for `caller`.

    A tester gets the new version of their Release, and no Release is said to have decided: testers are no
    sample of its callers. Otherwise the weights choose first. If that gives a version between which and
    another a Release that concerns the caller decides, its share chooses of the two: so other versions keep
    their proportion.

    `draw` returns uniform numbers in [0, 1); it is asked for a caller that nothing ties to a version.
    """
    for rollout in model.releases:
        if rollout.testers and _has(caller, rollout.testers):
            return Assigned(_named(model, rollout.to_version))
    for rollout in model.releases:
        if concerns(rollout, caller):
            key = sticky_key(caller, rollout.sticky_by)
            version = by_weight(model, point(model.name, key) if key else draw())
            if version.name in (rollout.from_version, rollout.to_version):
                return _by_share(model, rollout, point(rollout.salt, key) if key else draw())
            if len(model.releases) == 1:
                return Assigned(version)
    if len(model.versions) == 1:
        return Assigned(model.versions[0])
    key = sticky_key(caller, PLAIN_STICKY)
    return Assigned(by_weight(model, point(model.name, key) if key else draw()))


def concerns(rollout: Rollout, caller: Caller) -> bool:
    """Return whether `caller` meets every condition of `rollout`; a list that is empty is none."""
    if rollout.tiers and caller.tier not in rollout.tiers:
        return False
    if rollout.consumers and caller.consumer not in rollout.consumers:
        return False
    if rollout.user_agents and not _any_glob(rollout.user_agents, caller.headers.get("user-agent", "")):
        return False
    return _has(caller, rollout.headers)


def sticky_key(caller: Caller, kinds: Iterable[StickyBy]) -> str:
    """Return the first of `kinds` that the caller has, or "" when nothing ties it to a version.

    The ip is the first address that the application forwards: a sidecar's own peer is always the same.
    """
    for kind in kinds:
        if kind == "consumer" and caller.consumer:
            return f"consumer:{caller.consumer}"
        if kind == "session" and (session := caller.headers.get(SESSION)):
            return f"session:{caller.tenant}:{session}"
        if kind == "ip" and (address := caller.headers.get(_FORWARDED_FOR, "").partition(",")[0].strip()):
            return f"ip:{address}"
    return ""


def point(salt: str, key: str) -> float:
    """Return the place of `key` in [0, 1): uniform over keys, constant for one key and salt."""
    digest = hashlib.sha256(f"{salt}\0{key}".encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:7]) / (1 << 56)


def by_weight(model: Model, place: float) -> Version:
    """Return the version whose share of the weights covers `place` in [0, 1)."""
    total = sum(version.weight for version in model.versions)
    reached = 0.0
    chosen = None
    for version in model.versions:
        if version.weight <= 0:
            continue
        chosen = version
        reached += version.weight / total
        if place < reached:
            break
    if chosen is None:
        raise ValueError(f"model {model.name} has no version with a weight")
    return chosen


def _by_share(model: Model, rollout: Rollout, place: float) -> Assigned:
    name = rollout.to_version if place < rollout.share else rollout.from_version
    return Assigned(_named(model, name), rollout.name)


def _named(model: Model, name: str) -> Version:
    return next(version for version in model.versions if version.name == name)


def _has(caller: Caller, headers: Mapping[str, str]) -> bool:
    return all(caller.headers.get(name) == value for name, value in headers.items())


def _any_glob(globs: Iterable[str], text: str) -> bool:
    return any(fnmatchcase(text, glob) for glob in globs)
