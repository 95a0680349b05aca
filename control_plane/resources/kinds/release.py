"""Release: a grey release of one Model's version."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from control_plane.resources.kinds.spec import Items, Prose, Share, Spec, Text
from control_plane.resources.kinds.tier import check_headers
from control_plane.resources.quantities import DurationMs, PositiveDurationMs


class ReleaseMatch(Spec):
    """Whom the Release concerns; an empty list is everybody."""

    tiers: Items[Text] = ()
    user_agents: Items[Text] = ()
    headers: Annotated[dict[str, Prose], AfterValidator(check_headers)] = Field(default_factory=dict)
    consumers: Items[Text] = ()
    workloads: Items[Text] = ()


class MaxIncrease(Spec):
    """How much worse the new version's rate may be, as an absolute share."""

    max_increase: Share = 0.01


class MaxRatio(Spec):
    """How many times the old version's figure the new one's may be."""

    max_ratio: Annotated[float, Field(gt=0)] = 1.2


class PrometheusGate(Spec):
    """A query whose value must stay at or below `max`."""

    query: Text
    max: float


class Gates(Spec):
    """What holds a step back or rolls it back."""

    error_rate: MaxIncrease = MaxIncrease()
    latency_p95: MaxRatio = Field(default=MaxRatio(), alias="latencyP95")
    ttft_p95: MaxRatio = Field(default=MaxRatio(), alias="ttftP95")
    cost: MaxRatio | None = None
    output_length: MaxRatio | None = None
    prometheus: Items[PrometheusGate] = ()
    min_requests: Annotated[int, Field(ge=1)] = 200
    max_wait_ms: PositiveDurationMs | None = Field(default=None, alias="maxWait")


class ReleaseSpec(Spec):
    """`spec` of a Release."""

    model: Text
    from_version: Text = Field(alias="from")
    to_version: Text = Field(alias="to")
    steps: Annotated[Items[Annotated[float, Field(ge=1, le=100)]], Field(min_length=1)] = (5, 25, 50, 100)
    bake_ms: DurationMs = Field(default=600_000, alias="bake")
    match: ReleaseMatch = ReleaseMatch()
    sticky_by: Items[Literal["consumer", "session", "ip"]] = ("consumer", "session")
    shadow: Share | None = None
    gates: Gates = Gates()
    notify: Items[Text] = ()

    @model_validator(mode="after")
    def _steps(self) -> Self:
        if any(later <= earlier for earlier, later in pairwise(self.steps)):
            raise ValueError("steps must increase")
        if self.from_version == self.to_version:
            raise ValueError("from and to must be different versions")
        return self
