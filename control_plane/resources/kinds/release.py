"""Release: a grey release of one Model's version."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from control_plane.resources.kinds.backend import Credentials
from control_plane.resources.kinds.spec import Items, Prose, Share, Spec, Text
from control_plane.resources.kinds.tier import check_headers
from control_plane.resources.quantities import DurationMs, PositiveDurationMs
from control_plane.resources.urls import check_webhook_url

MAX_WEBHOOKS: Final = 16
MAX_QUERIES: Final = 16


class ReleaseMatch(Spec):
    """Whom the Release concerns; an empty list is everybody."""

    tiers: Items[Text] = ()
    user_agents: Items[Text] = ()
    headers: Annotated[dict[str, Prose], AfterValidator(check_headers)] = Field(default_factory=dict)
    consumers: Items[Text] = ()
    workloads: Items[Text] = ()


class Testers(Spec):
    """Who gets the new version whatever the share: callers with every header that is named."""

    headers: Annotated[dict[str, Prose], Field(min_length=1), AfterValidator(check_headers)]


class MaxIncrease(Spec):
    """How much worse the new version's rate may be, as an absolute share."""

    max_increase: Share = 0.01


class MaxRatio(Spec):
    """How many times the old version's figure the new one's may be."""

    max_ratio: Annotated[float, Field(gt=0)] = 1.2


class PrometheusGate(Spec):
    """A query whose one value must not be above `max`, or not below `min`."""

    query: Text
    max: float | None = None
    min: float | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.max is None) is (self.min is None):
            raise ValueError("must have exactly one of max and min")
        return self


class Gates(Spec):
    """What holds a step back or rolls it back."""

    error_rate: MaxIncrease = MaxIncrease()
    latency_p95: MaxRatio = Field(default=MaxRatio(), alias="latencyP95")
    ttft_p95: MaxRatio = Field(default=MaxRatio(), alias="ttftP95")
    cost: MaxRatio | None = None
    output_length: MaxRatio | None = None
    refusal_rate: MaxIncrease | None = None
    prometheus: Annotated[Items[PrometheusGate], Field(max_length=MAX_QUERIES)] = ()
    min_requests: Annotated[int, Field(ge=1)] = 200
    max_wait_ms: PositiveDurationMs | None = Field(default=None, alias="maxWait")


class Webhook(Spec):
    """Who is told of a Release's moves, and what the telling is signed with."""

    url: Annotated[str, AfterValidator(check_webhook_url)]
    secret: Credentials | None = None


def _webhook(value: Any) -> Any:
    return {"url": value} if isinstance(value, str) else value


class ReleaseSpec(Spec):
    """`spec` of a Release."""

    model: Text
    from_version: Text = Field(alias="from")
    to_version: Text = Field(alias="to")
    steps: Annotated[Items[Annotated[float, Field(ge=1, le=100)]], Field(min_length=1)] = (5, 25, 50, 100)
    bake_ms: DurationMs = Field(default=600_000, alias="bake")
    match: ReleaseMatch = ReleaseMatch()
    testers: Testers | None = None
    sticky_by: Items[Literal["consumer", "session", "ip"]] = ("consumer", "session")
    shadow: Share | None = None
    warm_cache: Annotated[int, Field(ge=0, le=1000)] = 0
    gates: Gates = Gates()
    notify: Annotated[
        Items[Annotated[Webhook, BeforeValidator(_webhook)]], Field(max_length=MAX_WEBHOOKS)
    ] = ()

    @model_validator(mode="after")
    def _steps(self) -> Self:
        if any(later <= earlier for earlier, later in pairwise(self.steps)):
            raise ValueError("steps must increase")
        if self.from_version == self.to_version:
            raise ValueError("from and to must be different versions")
        return self
