"""Policy: what is done with requests; the most specific target wins, field by field.

Defaults change no answer; what only protects is on. The attribute path of a built field is its name in
`ext_proc.contract.snapshot.PolicyLayer.settings`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from control_plane.resources.kinds.spec import Count, Items, Share, Spec, Text
from control_plane.resources.quantities import DurationMs, PositiveDurationMs, SizeBytes
from ext_proc.contract.entities import Entity

LOCAL_EMBEDDER: Final = "local"
"""What the data plane embeds with by itself; any other embedder is a Model."""

_RETRY_ON = re.compile(r"connect|reset|5xx|context-length|content-filter|[45][0-9]{2}")


def _pattern(value: str) -> str:
    if "*" in value[:-1]:
        raise ValueError("may hold * at its end only")
    return value


def _status_text(value: Any) -> Any:
    # YAML reads an unquoted 429 as a number; what is meant is plain.
    return str(value) if type(value) is int else value


def _retry_reason(value: str) -> str:
    if not _RETRY_ON.fullmatch(value):
        raise ValueError(
            "must be connect, reset, context-length, content-filter, 5xx or a status such as 429"
        )
    return value


Patterns = Annotated[Items[Annotated[Text, AfterValidator(_pattern)]], Field(min_length=1)]
RetryReason = Annotated[str, BeforeValidator(_status_text), AfterValidator(_retry_reason)]


class Target(Spec):
    """What a Policy is for: exact names, prefix patterns (`gpt-4*`) or `*`."""

    models: Patterns = ("*",)
    tiers: Patterns = ("*",)
    workloads: Patterns = ("*",)


class Semantic(Spec):
    """Answers to questions that mean the same."""

    enabled: bool = False
    max_error_rate: Share = 0.01
    mode: Literal["serve", "shadow"] = "serve"
    embedder: Text = LOCAL_EMBEDDER


class Cache(Spec):
    """Whether and how answers are kept."""

    enabled: bool = False
    ttl_ms: PositiveDurationMs = Field(default=86_400_000, alias="ttl")
    scope: Literal["tenant", "consumer", "global"] = "tenant"
    memory_entries: Count = 10_000
    memory_bytes: SizeBytes = 64 << 20
    max_temperature: Annotated[float, Field(ge=0)] = 2.0
    tiers: Annotated[Items[Literal["memory", "redis", "database"]], Field(min_length=1)] = (
        "memory",
        "redis",
        "database",
    )
    stale_while_revalidate_ms: DurationMs | None = Field(default=None, alias="staleWhileRevalidate")
    stale_if_error_ms: DurationMs | None = Field(default=None, alias="staleIfError")
    stream_pace_ms: Annotated[DurationMs, Field(le=1_000)] | None = Field(default=None, alias="streamPace")
    semantic: Semantic = Semantic()


class Coalesce(Spec):
    """Equal requests in flight share one upstream call."""

    enabled: bool = False
    max_followers: Count = 10_000


class Batch(Spec):
    """Different requests share one upstream call."""

    mode: Literal["none", "native", "array", "packed"] = "none"
    max_size: Count = 50
    max_wait_ms: PositiveDurationMs = Field(default=200, alias="maxWait")
    send_below: Count = 5
    split_above: Count = 20
    adaptive: bool = False
    slo_ms: PositiveDurationMs | None = Field(default=None, alias="slo")


class Retry(Spec):
    """Tries beyond the first, by Envoy."""

    attempts: Annotated[int, Field(ge=1, le=100)] = 3
    base_ms: PositiveDurationMs = Field(default=1_000, alias="base")
    max_ms: PositiveDurationMs = Field(default=8_000, alias="max")
    retry_on: Items[RetryReason] = ("connect", "reset", "429", "5xx")
    budget: Share = 0.2
    hedge_after_ms: PositiveDurationMs | None = Field(default=None, alias="hedgeAfter")

    @model_validator(mode="after")
    def _order(self) -> Self:
        # What is left out may be another Policy's, so it is not compared with.
        if {"base_ms", "max_ms"} <= self.model_fields_set and self.base_ms > self.max_ms:
            raise ValueError("base must not be above max")
        return self


class Hold(Spec):
    """How long a request may wait for a cooling provider."""

    max_ms: DurationMs = Field(default=10_000, alias="max")


class Bound(Spec):
    """A cap and a default for a number in a request."""

    max: Annotated[float, Field(ge=0)] | None = None
    default: Annotated[float, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _order(self) -> Self:
        if self.max is not None and self.default is not None and self.default > self.max:
            raise ValueError("default must not be above max")
        return self


class CountBound(Bound):
    """A cap and a default for a whole number of at least 1."""

    max: Count | None = None
    default: Count | None = None


class ShareBound(Bound):
    """A cap and a default for a number from 0 to 1."""

    max: Share | None = None
    default: Share | None = None


class Parameters(Spec):
    """Bounds on what a caller may ask for."""

    temperature: Bound | None = None
    top_p: ShareBound | None = None
    max_tokens: CountBound | None = None
    n: CountBound | None = None
    forbid: Items[Text] = ()


class Session(Spec):
    """Turns the mesh remembers for the caller."""

    enabled: bool = False
    turns: Count = 4
    ttl_ms: PositiveDurationMs = Field(default=1_800_000, alias="ttl")
    max_tokens: Count | None = None


class Redaction(Spec):
    """What is masked, and where."""

    logs: bool = True
    prompts: bool = False
    entities: Items[Entity] | None = None


class LimitsBehaviour(Spec):
    """What limits do without Redis."""

    on_redis_loss: Literal["local", "refuse"] = "local"


class VersionPolicy(Spec):
    """What a Policy may say for the calls of one version of a Model; it beats every Policy, field by field.

    What is decided before there is a version, or is not the version's to say, is left out.
    """

    cache: Cache = Cache()
    coalesce: Coalesce = Coalesce()
    batch: Batch = Batch()
    retry: Retry = Retry()
    hold: Hold = Hold()
    parameters: Parameters = Parameters()
    session: Session = Session()


class PolicySpec(Spec):
    """`spec` of a Policy."""

    target: Target = Target()
    fail_open: bool = True
    unknown_models: Literal["pass", "refuse"] = "pass"
    require_consumer: bool = False
    cache: Cache = Cache()
    coalesce: Coalesce = Coalesce()
    batch: Batch = Batch()
    retry: Retry = Retry()
    hold: Hold = Hold()
    parameters: Parameters = Parameters()
    session: Session = Session()
    redaction: Redaction = Redaction()
    limits: LimitsBehaviour = LimitsBehaviour()

    @model_validator(mode="after")
    def _fail_open(self) -> Self:
        narrow = self.target.models != ("*",) or self.target.tiers != ("*",)
        if "fail_open" in self.model_fields_set and narrow:
            raise ValueError(
                "failOpen is one value per workload: set it in a Policy whose target names "
                "neither models nor tiers"
            )
        return self
