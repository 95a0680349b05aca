"""Route ids: how the processor names what the agent renders (pure, shared by both so that they agree).

A route id stands for one Envoy route: a Backend as it is configured, a retry policy, and the shape of the
call. It is derived from content: a Backend that changes gets new ids and a new cluster, so requests decided
by the old snapshot still find the old ones (make before break).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final

from ext_proc.contract.policies import HoldPolicy, RetryPolicy, rank, resolve_policy, with_settings
from ext_proc.contract.snapshot import Backend, Setting, Snapshot

# The route to a processor's own origin.
ORIGIN_ROUTE: Final = "origin"


class CallShape(StrEnum):
    """How a call's time limits and retries are laid out.

    JSON: one time limit over all tries. HEDGED: the same, and a slow try is joined by another.
    STREAM: no limit on the whole, one on each try's first byte.
    RAW: a path of the API that we do not parse; its body is not held, so only a refused connection is
    tried again.
    """

    JSON = "json"
    HEDGED = "hedged"
    STREAM = "stream"
    RAW = "raw"


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:10]


@lru_cache(maxsize=4096)
def cluster_name(backend: Backend) -> str:
    """Return the name of the Envoy cluster for `backend` as it is configured now."""
    return f"{backend.name}.{_digest(backend)}"


@dataclass(frozen=True, slots=True)
class RouteTerms:
    """The part of a Policy that Envoy itself carries out: how to retry, and how long a retry may be held."""

    retry: RetryPolicy = field(default_factory=RetryPolicy)
    hold: HoldPolicy = field(default_factory=HoldPolicy)


@lru_cache(maxsize=16384)
def route_id(backend: Backend, terms: RouteTerms, shape: CallShape, stand_ins: int = 0) -> str:
    """Return the value of `x-outrigger-route` for this combination; `stand_ins` come after the `backend`."""
    planned = f".{stand_ins}" if stand_ins else ""
    return f"{backend.name}.{shape}.{_digest(backend, terms)}{planned}"


def shapes_of(terms: RouteTerms) -> Iterator[CallShape]:
    """Yield the shapes of calls under `terms`."""
    for shape in CallShape:
        if shape is not CallShape.HEDGED or terms.retry.hedge_after_ms is not None:
            yield shape


def most_stand_ins(snapshot: Snapshot) -> int:
    """Return how many stand-ins a call under `snapshot` may have at most."""
    return max((len(model.fallbacks) for model in snapshot.models.values()), default=0)


_NO_NAME: Final = "\0"


def terms_in_use(snapshot: Snapshot) -> Iterator[RouteTerms]:
    """Yield the terms that some request under `snapshot` may get, each once.

    Enumerates two representatives per pattern that Policies name, beside the configured names. Prefixes are
    nested, so a prefix with a sign after it that no name has stands for all names that match it and nothing
    longer; the prefix itself may be the name of another Policy.
    """
    layers = [layer for layer in snapshot.policies if _has_terms(layer.settings)]
    own = {
        model.name: [version.settings for version in model.versions if _has_terms(version.settings)]
        for model in snapshot.models.values()
    }
    models, tiers = {"", *(name for name, settings in own.items() if settings)}, {""}
    if layers:
        prefixes = {name.rstrip("*") for layer in layers for name in layer.models}
        models |= {*snapshot.models, *prefixes, *(prefix + _NO_NAME for prefix in prefixes)}
        tiers |= {*snapshot.tiers, *(name.rstrip("*") for layer in layers for name in layer.tiers)}
    # Names that no Policy tells apart get the same; one of them stands for all, though they be thousands.
    unlike_models = {
        (name if own.get(name) else "", *(rank(layer.models, name) for layer in layers)): name
        for name in sorted(models)
    }
    unlike_tiers = {tuple(rank(layer.tiers, name) for layer in layers): name for name in sorted(tiers)}
    seen: set[RouteTerms] = set()
    for model in unlike_models.values():
        for tier in unlike_tiers.values():
            base = resolve_policy(layers, model, tier)
            for policy in (base, *(with_settings(base, settings) for settings in own.get(model, ()))):
                terms = RouteTerms(policy.retry, policy.hold)
                if terms not in seen:
                    seen.add(terms)
                    yield terms


def _has_terms(settings: Mapping[str, Setting]) -> bool:
    return any(name.startswith(("retry.", "hold.")) for name in settings)
