"""Model: what applications ask for by name, and the versions that serve it."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from control_plane.resources.kinds.policy import VersionPolicy
from control_plane.resources.kinds.spec import Items, Limits, Line, Spec, Text
from control_plane.resources.names import check_model_name, check_name


class VersionSpec(Spec):
    """One version: a Backend, the name it knows the model by, a share of the calls, how those are handled."""

    name: Annotated[str, AfterValidator(check_name)]
    backend: Text
    upstream_model: Line | None = None
    weight: Annotated[float, Field(ge=0, le=1e9)] = 100.0
    policy: VersionPolicy | None = None


class DegradeSpec(Spec):
    """Serve `model` instead to callers that match every condition given."""

    user_agent: Text | None = None
    tier: Text | None = None
    load: Annotated[float, Field(ge=0)] | None = None
    model: Text

    @model_validator(mode="after")
    def _condition(self) -> Self:
        if self.user_agent is None and self.tier is None and self.load is None:
            raise ValueError("needs a condition: userAgent, tier or load")
        return self


class Prices(Spec):
    """Cost of a million tokens."""

    input_per_million: Annotated[float, Field(ge=0)] | None = None
    output_per_million: Annotated[float, Field(ge=0)] | None = None


class ModelSpec(Spec):
    """`spec` of a Model."""

    aliases: Items[Annotated[str, AfterValidator(check_model_name)]] = ()
    versions: Annotated[Items[VersionSpec], Field(min_length=1)]
    fallbacks: Items[Text] = ()
    degrade: Items[DegradeSpec] = ()
    limits: Limits | None = None
    prices: Prices | None = None

    @model_validator(mode="after")
    def _versions(self) -> Self:
        names = [version.name for version in self.versions]
        if len(set(names)) != len(names):
            raise ValueError("versions must have different names")
        if not any(version.weight > 0 for version in self.versions):
            raise ValueError("versions need at least one weight above 0")
        return self
