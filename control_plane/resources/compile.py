"""Documents to the snapshot of one workload (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from control_plane.resources.documents import Documents
from control_plane.resources.kinds.backend import BackendSpec, Credentials, Warmup
from control_plane.resources.kinds.model import ModelSpec, Prices
from control_plane.resources.kinds.spec import Limits
from control_plane.resources.policies import fail_open_in_force, flat_settings
from control_plane.resources.purges import effective_purges
from ext_proc.contract import snapshot as contract
from ext_proc.contract.policies import rank


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a Release is: the `share` of callers on its new version, in percent.

    With `shadows` that is asked beside the old one; `withdrawn`, nobody gets it any more, testers neither.
    """

    share: float
    shadows: bool = False
    withdrawn: bool = False


def compile_snapshot(
    documents: Documents,
    workload: str,
    revision: int,
    *,
    consumer_keys: Mapping[str, contract.ConsumerKey] = MappingProxyType({}),
    key_salt: str = "",
    purges: Sequence[contract.Purge] = (),
    progress: Mapping[str, Progress] = MappingProxyType({}),
) -> contract.Snapshot:
    """Return what `workload` is to obey under `documents`.

    `revision` grows with every change; the version is derived from it and the content, so whoever compiles
    the same thing gets the same version. Of `consumer_keys` (by digest with `key_salt`) those of Consumers
    that are no document are left out. A tenant's purge counts for its Consumers' own partitions too.
    `progress` says how far Releases are, by name; one that is not in it has no effect.
    """
    pins = _pins(documents)
    rollouts = _rollouts(documents, progress, workload)
    blank = contract.Snapshot(
        version="",
        revision=revision,
        workload=workload,
        fail_open=fail_open_in_force(dict(documents.policies), workload),
        default_backend=_default_backend(documents),
        backends={name: _backend(name, spec) for name, spec in documents.backends.items()},
        models={
            name: _model(name, spec, pins.get(name, {}), rollouts.get(name, ()))
            for name, spec in documents.models.items()
        },
        aliases={alias: name for name, spec in documents.models.items() for alias in spec.aliases},
        tiers={
            name: contract.Tier(
                name, dict(spec.match.header) if spec.match else {}, spec.priority, _limits(spec.limits)
            )
            for name, spec in documents.tiers.items()
        },
        consumers={
            name: contract.Consumer(name, spec.tenant, spec.tier, _limits(spec.limits))
            for name, spec in documents.consumers.items()
        },
        consumer_keys={
            digest: key for digest, key in consumer_keys.items() if key.consumer in documents.consumers
        },
        key_salt=key_salt,
        policies=_policies(documents, workload),
        purges=effective_purges(purges, documents.consumers),
    )
    return replace(blank, version=contract.content_version(blank))


def _default_backend(documents: Documents) -> str | None:
    for name, spec in documents.backends.items():
        if spec.default:
            return name
    if len(documents.backends) == 1:
        (name, spec), *_ = documents.backends.items()
        return name if spec.protocol == "openai" else None
    return None


def _credential(credentials: Credentials | None) -> contract.CredentialRef | None:
    if credentials is None:
        return None
    if credentials.env is not None:
        return contract.CredentialRef("env", credentials.env)
    if credentials.file is not None:
        return contract.CredentialRef("file", credentials.file)
    if credentials.secret_ref is not None:
        return contract.CredentialRef("secret", credentials.secret_ref.name, credentials.secret_ref.key)
    return None


def _backend(name: str, spec: BackendSpec) -> contract.Backend:
    quota = contract.Quota()
    if spec.quota is not None:
        quota = contract.Quota(
            spec.quota.requests_per_minute, spec.quota.tokens_per_minute, spec.quota.concurrency
        )
    return contract.Backend(
        name=name,
        url=spec.url,
        protocol=spec.protocol,
        api_version=spec.api_version,
        credential=_credential(spec.credentials),
        quota=quota,
        timeouts=contract.Timeouts(
            spec.timeouts.connect_ms, spec.timeouts.request_ms, spec.timeouts.stream_idle_ms
        ),
        http=spec.http,
        batch=contract.BatchLimits(spec.batch.max_items, spec.batch.max_tokens) if spec.batch else None,
        warmup=_warmup(spec.warmup),
    )


def _warmup(warmup: Warmup | None) -> contract.Warmup | None:
    if warmup is None:
        return None
    return contract.Warmup(warmup.requests, warmup.prompt, warmup.idle_after_ms)


def _pins(documents: Documents) -> dict[str, dict[str, str]]:
    pins: dict[str, dict[str, str]] = {}
    for spec in documents.pins.values():
        pins.setdefault(spec.model, {})[spec.match.last_user_message] = spec.answer
    return pins


def _rollouts(
    documents: Documents, progress: Mapping[str, Progress], workload: str
) -> dict[str, tuple[contract.Rollout, ...]]:
    found: dict[str, tuple[contract.Rollout, ...]] = {}
    for name, spec in documents.releases.items():
        match, reached = spec.match, progress.get(name)
        if reached is None or (match.workloads and rank(match.workloads, workload) is None):
            continue
        rollout = contract.Rollout(
            name=name,
            from_version=spec.from_version,
            to_version=spec.to_version,
            share=reached.share / 100,
            salt=f"release:{name}",
            sticky_by=spec.sticky_by,
            tiers=match.tiers,
            consumers=match.consumers,
            user_agents=match.user_agents,
            headers={header.lower(): value for header, value in match.headers.items()},
            warm_cache=spec.warm_cache,
            reads_answers=spec.gates.refusal_rate is not None,
            testers=dict(spec.testers.headers) if spec.testers and not reached.withdrawn else {},
            shadow=spec.shadow or 0.0 if reached.shadows else 0.0,
        )
        found[spec.model] = (*found.get(spec.model, ()), rollout)
    return found


def _model(
    name: str, spec: ModelSpec, pins: Mapping[str, str], releases: tuple[contract.Rollout, ...]
) -> contract.Model:
    return contract.Model(
        name=name,
        versions=tuple(
            contract.Version(
                version.name,
                version.backend,
                version.upstream_model or name,
                version.weight,
                flat_settings(version.policy) if version.policy else {},
            )
            for version in spec.versions
        ),
        fallbacks=spec.fallbacks,
        degrade=tuple(
            contract.Degrade(rule.model, rule.user_agent, rule.tier, rule.load) for rule in spec.degrade
        ),
        prices=_prices(spec.prices),
        pins=pins,
        limits=_limits(spec.limits),
        releases=releases,
    )


def _limits(limits: Limits | None) -> contract.Limits | None:
    """Return None for what limits nothing, so that nobody counts it."""
    if limits is None:
        return None
    found = contract.Limits(
        limits.requests_per_minute,
        limits.tokens_per_minute,
        limits.concurrency,
        limits.count_cached,
        limits.tokens_per_day,
        limits.cost_per_day,
    )
    return None if replace(found, count_cached=False) == contract.Limits() else found


def _prices(prices: Prices | None) -> contract.Prices | None:
    if prices is None:
        return None
    return contract.Prices(prices.input_per_million or 0.0, prices.output_per_million or 0.0)


def _policies(documents: Documents, workload: str) -> tuple[contract.PolicyLayer, ...]:
    layers: list[contract.PolicyLayer] = []
    for name, spec in documents.policies.items():
        workload_rank = rank(spec.target.workloads, workload)
        if workload_rank is not None:
            target = spec.target
            layers.append(
                contract.PolicyLayer(name, target.models, target.tiers, workload_rank, flat_settings(spec))
            )
    return tuple(layers)
