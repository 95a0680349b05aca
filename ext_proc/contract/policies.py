"""Field-by-field policy precedence: which setting is in force for one model and tier (pure).

The most specific target that sets a field wins: an exact name beats a prefix pattern (`gpt-4*`; a longer
prefix beats a shorter one), which beats `*`; models are compared first, then tiers, then workloads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from ext_proc.contract.snapshot import PolicyLayer, Setting, Snapshot

Rank = tuple[int, int]
T = TypeVar("T")
EXACT = 2
PREFIX = 1
ANY = 0


@dataclass(frozen=True, slots=True)
class SemanticPolicy:
    """Whether answers to similar questions are served, and how often at most one of them may be wrong.

    `mode` is `serve`, or `shadow`: only count what would have been served. `embedder` is `local` or the name
    of a Model that makes embeddings.
    """

    enabled: bool = False
    max_error_rate: float = 0.01
    mode: str = "serve"
    embedder: str = "local"


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """Whether and how answers are kept, and in which tiers. Sizes are per processor.

    No `tiers` are all that are there. After its `ttl_ms` an answer is stale: it may still be served for
    `stale_while_revalidate_ms` while a fresh one is fetched, and for `stale_if_error_ms` when there is none.
    The pieces of a hit that is a stream are `stream_pace_ms` apart; None and 0 give it at once.
    """

    enabled: bool = False
    ttl_ms: int = 86_400_000
    scope: str = "tenant"
    memory_entries: int = 10_000
    memory_bytes: int = 64 * 1024 * 1024
    max_temperature: float = 2.0
    tiers: tuple[str, ...] | None = None
    stale_while_revalidate_ms: int | None = None
    stale_if_error_ms: int | None = None
    stream_pace_ms: int | None = None
    semantic: SemanticPolicy = SemanticPolicy()


@dataclass(frozen=True, slots=True)
class CoalescePolicy:
    """Whether equal requests in flight share one upstream call, and how many may wait for it."""

    enabled: bool = False
    max_followers: int = 10_000


@dataclass(frozen=True, slots=True)
class BatchPolicy:
    """Whether requests travel together, and when: `none`, or by the API's own lists (`native`), a list of
    conversations (`array`) or questions packed into one (`packed`).

    With fewer than `send_below` waiting a request goes at once. `max_size` and `split_above` bound the inputs
    of one call. `adaptive` learns size and window below these, toward `slo_ms`.
    """

    mode: str = "none"
    max_size: int = 50
    max_wait_ms: int = 200
    send_below: int = 5
    split_above: int = 20
    adaptive: bool = False
    slo_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`attempts` is the total of tries. `retry_on` holds connect, reset, 5xx and single status codes.

    A small JSON call that is not answered after `hedge_after_ms` is sent once more; the first answer counts.
    """

    attempts: int = 3
    base_ms: int = 1_000
    max_ms: int = 8_000
    retry_on: tuple[str, ...] = ("connect", "reset", "429", "5xx")
    budget: float = 0.2
    hedge_after_ms: int | None = None

    @property
    def longest_ms(self) -> int:
        """The longest pause: base and max may be of two Policies, and then base may be above max."""
        return max(self.base_ms, self.max_ms)


@dataclass(frozen=True, slots=True)
class HoldPolicy:
    """How long one request may wait for a cooling provider."""

    max_ms: int = 10_000


@dataclass(frozen=True, slots=True)
class Bound:
    """A cap and a default for one request parameter; None leaves it alone."""

    max: float | None = None
    default: float | None = None


@dataclass(frozen=True, slots=True)
class ParameterPolicy:
    """Bounds per request parameter, and parameters that are refused."""

    temperature: Bound = Bound()
    top_p: Bound = Bound()
    max_tokens: Bound = Bound()
    n: Bound = Bound()
    forbid: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionPolicy:
    """Whether the mesh remembers a caller's turns, how many go up again, and for how long it does.

    `max_tokens` bounds, by estimate, what goes up in all.
    """

    enabled: bool = False
    turns: int = 4
    ttl_ms: int = 1_800_000
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class RedactionPolicy:
    """Whether personal data and secrets in a prompt are masked before it leaves, and which.

    No `entities` are all of `contract.entities`. Logs are redacted whatever `logs` says.
    """

    logs: bool = True
    prompts: bool = False
    entities: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class LimitPolicy:
    """What limits do without the Redis that they are counted in: `local` (a share of them, counted here) or
    `refuse`.
    """

    on_redis_loss: str = "local"


@dataclass(frozen=True, slots=True)
class Policy:
    """Every setting in force for one model and tier of this workload. Defaults change no answer."""

    unknown_models: str = "pass"
    require_consumer: bool = False
    cache: CachePolicy = CachePolicy()
    coalesce: CoalescePolicy = CoalescePolicy()
    batch: BatchPolicy = BatchPolicy()
    retry: RetryPolicy = RetryPolicy()
    hold: HoldPolicy = HoldPolicy()
    parameters: ParameterPolicy = ParameterPolicy()
    session: SessionPolicy = SessionPolicy()
    redaction: RedactionPolicy = RedactionPolicy()
    limits: LimitPolicy = LimitPolicy()


DEFAULTS = Policy()


def rank(patterns: Iterable[str], name: str) -> Rank | None:
    """Return how specifically `patterns` name `name`, or None when they do not match it.

    (2, 0) is an exact name, (1, n) a prefix pattern of n characters, (0, 0) is `*`.
    """
    best: Rank | None = None
    for pattern in patterns:
        if pattern == "*":
            found: Rank = (ANY, 0)
        elif pattern.endswith("*"):
            if not name.startswith(pattern[:-1]):
                continue
            found = (PREFIX, len(pattern) - 1)
        elif pattern == name:
            found = (EXACT, 0)
        else:
            continue
        if best is None or found > best:
            best = found
    return best


def settings_in_force(layers: Iterable[PolicyLayer], model: str, tier: str) -> dict[str, tuple[Setting, str]]:
    """Return each setting that some Policy makes for `model` and `tier`, with the Policy's name.

    `model` is a Model's name or the name a caller invented; `tier` is "" for a caller without one.
    """
    ranked: list[tuple[tuple[Rank, Rank, Rank], PolicyLayer]] = []
    for layer in layers:
        model_rank, tier_rank = rank(layer.models, model), rank(layer.tiers, tier)
        if model_rank is not None and tier_rank is not None:
            ranked.append(((model_rank, tier_rank, layer.workload_rank), layer))
    ranked.sort(key=lambda item: item[0])
    return {name: (value, layer.name) for _, layer in ranked for name, value in layer.settings.items()}


def all_settings(snapshot: Snapshot) -> Iterator[Mapping[str, Setting]]:
    """Yield what each Policy of `snapshot` sets, and each version of a Model."""
    for layer in snapshot.policies:
        yield layer.settings
    for model in snapshot.models.values():
        for version in model.versions:
            if version.settings:
                yield version.settings


def resolve_policy(layers: Iterable[PolicyLayer], model: str, tier: str) -> Policy:
    """Return the Policy in force for `model` and `tier`.

    Settings are flat: `cache.ttl_ms`, `parameters.temperature.max`. Names that this version of the data
    plane does not know are left out, so an older sidecar lives with a newer control plane.
    """
    found = settings_in_force(layers, model, tier)
    return with_settings(DEFAULTS, {name: value for name, (value, _) in found.items()})


def with_settings(base: Policy, settings: Mapping[str, Setting]) -> Policy:
    """Return `base` with `settings` in the place of its own, field by field; unknown names are left out."""
    tree: dict[str, Any] = {}
    for name, value in settings.items():
        node = tree
        *parents, leaf = name.split(".")
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = tuple(value) if isinstance(value, list) else value
    return _overlay(base, tree)


def _overlay(base: T, tree: Mapping[str, Any]) -> T:
    changes: dict[str, Any] = {}
    for item in fields(base):  # type: ignore[arg-type]
        if item.name in tree:
            value = tree[item.name]
            changes[item.name] = (
                _overlay(getattr(base, item.name), value) if isinstance(value, Mapping) else value
            )
    return replace(base, **changes) if changes else base  # type: ignore[type-var]
