"""The policy of one workload, compiled: what the control plane pushes and the data plane obeys.

Frozen slotted dataclasses inside; pydantic reads and writes the wire form (JSON) at the edge. Durations
are whole milliseconds. Nothing secret is in here: credentials are references that the agent resolves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated, Literal

from pydantic import StringConstraints, TypeAdapter

Protocol = Literal["openai", "azure-openai"]
HttpVersion = Literal["auto", "1.1", "2"]
Salt = Annotated[str, StringConstraints(pattern=r"^([0-9a-fA-F]{2}){0,64}$")]
StickyBy = Literal["consumer", "session", "ip"]
Setting = bool | int | float | str | tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class CredentialRef:
    """Where a provider's key is found. `name` is a variable, a path or a Secret's name (with its `key`)."""

    kind: Literal["env", "file", "secret"]
    name: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """What the provider allows; None is no known limit."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Layered time limits: to connect, for all tries of a JSON call, between two bytes of a stream."""

    connect_ms: int = 5_000
    request_ms: int = 25_000
    stream_idle_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What one call may hold; None is no known limit."""

    max_items: int | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Warmup:
    """So many small requests wake the provider, at the start and when it was idle for so long."""

    requests: int = 50
    prompt: str = "Hello"
    idle_after_ms: int = 600_000


@dataclass(frozen=True, slots=True)
class Backend:
    """One provider endpoint: one Envoy cluster. `url` has no trailing slash and keeps its base path."""

    name: str
    url: str
    protocol: Protocol = "openai"
    api_version: str | None = None
    credential: CredentialRef | None = None
    quota: Quota = Quota()
    timeouts: Timeouts = Timeouts()
    http: HttpVersion = "auto"
    batch: BatchLimits | None = None
    warmup: Warmup | None = None


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a Model. `weight` is as configured; all weights of a Model sum to more than 0.

    Its `settings`, flat as those of a `PolicyLayer`, beat every Policy for the calls that it answers.
    """

    name: str
    backend: str
    upstream_model: str
    weight: float = 100.0
    settings: Mapping[str, Setting] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Degrade:
    """Serve `model` instead, for callers that match every condition given (`user_agent` is a glob).

    `load` is the share of the Model's limits in use, from 0 to 1, from which on it holds.
    """

    model: str
    user_agent: str | None = None
    tier: str | None = None
    load: float | None = None


@dataclass(frozen=True, slots=True)
class Prices:
    """What a million tokens cost, in whatever currency the operator thinks in."""

    input_per_million: float = 0.0
    output_per_million: float = 0.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be used; None is no limit. With `count_cached`, hits and followers count as requests.

    `cost_per_day` is in the currency of the Models' prices; a day is any 24 hours.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrency: int | None = None
    count_cached: bool = False
    tokens_per_day: int | None = None
    cost_per_day: float | None = None


@dataclass(frozen=True, slots=True)
class Rollout:
    """A Release of one Model on its way: `share` (0 to 1) of the callers it concerns get `to_version`.

    It decides between its two versions only, and for callers that meet every condition: one of the `tiers`,
    of the `consumers` and of the `user_agents` (globs), all `headers` (lower-case names). What is empty is no
    condition. `sticky_by` says what ties a caller to its version, the first one it has. So many questions
    (`warm_cache`) are asked of the new version in advance when the share grows. `reads_answers`: whether an
    answer is a refusal is to be told of each call. Callers with every header of `testers` (lower-case names;
    empty: there are none) get `to_version` whatever the share. `shadow` (0 to 1) of the calls that
    `from_version` answers are asked of `to_version` as well, for nobody.
    """

    name: str
    from_version: str
    to_version: str
    share: float
    salt: str
    sticky_by: tuple[StickyBy, ...] = ("consumer", "session")
    tiers: tuple[str, ...] = ()
    consumers: tuple[str, ...] = ()
    user_agents: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    warm_cache: int = 0
    reads_answers: bool = False
    testers: Mapping[str, str] = field(default_factory=dict)
    shadow: float = 0.0


@dataclass(frozen=True, slots=True)
class Model:
    """What applications ask for by name. `pins` maps exact last user messages to their fixed answers.

    `fallbacks` are the Models that answer in its place when it cannot, in order.
    """

    name: str
    versions: tuple[Version, ...]
    degrade: tuple[Degrade, ...] = ()
    prices: Prices | None = None
    pins: Mapping[str, str] = field(default_factory=dict)
    limits: Limits | None = None
    fallbacks: tuple[str, ...] = ()
    releases: tuple[Rollout, ...] = ()


@dataclass(frozen=True, slots=True)
class Purge:
    """Cached answers that are void: asked for at or before `at_s` (seconds since the epoch).

    Each condition that is given narrows it; none voids every answer of that age. `tenant` is the partition of
    a tenant, `key_prefix` the beginning of a cache key in hexadecimal.
    """

    at_s: float
    tenant: str | None = None
    model: str | None = None
    version: str | None = None
    key_prefix: str | None = None


@dataclass(frozen=True, slots=True)
class Tier:
    """A class of callers. `match_headers` (lower-case names) put a caller without a Consumer into it.

    Its `limits` are each Consumer's own; all callers without one share them.
    """

    name: str
    match_headers: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    limits: Limits | None = None


@dataclass(frozen=True, slots=True)
class Consumer:
    """A known caller."""

    name: str
    tenant: str
    tier: str | None = None
    limits: Limits | None = None


@dataclass(frozen=True, slots=True)
class ConsumerKey:
    """Whose a key is. It counts until `expires_at_s` (seconds since the epoch; None: for ever)."""

    consumer: str
    expires_at_s: float | None = None


@dataclass(frozen=True, slots=True)
class PolicyLayer:
    """One Policy as written: its target and only the fields it sets, flat (`cache.ttl_ms`: 1000).

    `workload_rank` says how specifically it named this workload (see `policies.rank`); Policies for
    other workloads are not in the snapshot.
    """

    name: str
    models: tuple[str, ...] = ("*",)
    tiers: tuple[str, ...] = ("*",)
    workload_rank: tuple[int, int] = (0, 0)
    settings: Mapping[str, Setting] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole policy of one workload.

    `aliases` maps every alias to its Model's name. `consumer_keys` maps the digest of a Consumer key
    (`keys.key_digest` with `key_salt`) to whose it is. `default_backend` is where requests go that the
    processor cannot place.
    """

    version: str
    revision: int = 0
    workload: str = "default"
    fail_open: bool = True
    default_backend: str | None = None
    backends: Mapping[str, Backend] = field(default_factory=dict)
    models: Mapping[str, Model] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    tiers: Mapping[str, Tier] = field(default_factory=dict)
    consumers: Mapping[str, Consumer] = field(default_factory=dict)
    consumer_keys: Mapping[str, ConsumerKey] = field(default_factory=dict)
    key_salt: Salt = ""
    policies: tuple[PolicyLayer, ...] = ()
    purges: tuple[Purge, ...] = ()


@cache
def _adapter() -> TypeAdapter[Snapshot]:
    # Made when a snapshot is first read or written, which most commands never do: a tenth of a second.
    return TypeAdapter(Snapshot)


def encode(snapshot: Snapshot) -> bytes:
    """Return the wire form of `snapshot`: JSON, UTF-8."""
    return _adapter().dump_json(snapshot)


def decode(content: bytes) -> Snapshot:
    """Read the wire form back.

    Raises:
        ValueError: `content` is no snapshot (pydantic's ValidationError names the place).
    """
    return _adapter().validate_json(content)


def encode_content(snapshot: Snapshot) -> bytes:
    """Return the wire form of what `snapshot` says, without version, revision and the workload's name.

    Workloads that are to obey the same, and revisions that change nothing, have the same bytes.
    """
    return encode(replace(snapshot, version="", revision=0, workload=""))


def content_version(snapshot: Snapshot) -> str:
    """Return the version that this content should carry: `r<revision>-<digest>`.

    Two snapshots with the same content and revision have the same version, whoever compiles them and for
    whichever workload.
    """
    digest = hashlib.sha256(encode_content(snapshot)).hexdigest()[:16]
    return f"r{snapshot.revision}-{digest}"


def content_digest(version: str) -> str:
    """Return the part of `version` that stands for the content; of another form, all of it."""
    revision, dash, digest = version.partition("-")
    return digest if dash and revision.startswith("r") and revision[1:].isdecimal() else version
