"""Backend: one provider endpoint, one Envoy cluster."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from control_plane.resources.kinds.spec import Count, Spec, Text
from control_plane.resources.names import SECRET_NAME
from control_plane.resources.quantities import PositiveDurationMs
from control_plane.resources.urls import check_url

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _variable(value: str) -> str:
    if not _VARIABLE.fullmatch(value):
        raise ValueError("must be the name of an environment variable, not the key itself")
    return value


def _file_name(value: str) -> str:
    if not re.fullmatch(SECRET_NAME, value):
        raise ValueError("must be a name of letters, digits, '-', '_' and '.'")
    return value


def _path(value: str) -> str:
    if "\0" in value:
        raise ValueError("must be a path")
    return value


def _http_version(value: Any) -> Any:
    # YAML reads an unquoted 1.1 as a number; what is meant is plain.
    return str(value) if type(value) in (int, float) else value


def _api_version(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", value):
        raise ValueError("must be a version such as 2024-06-01")
    return value


class SecretRef(Spec):
    """A mounted Kubernetes Secret and the key in it."""

    name: Annotated[str, AfterValidator(_file_name)]
    key: Annotated[str, AfterValidator(_file_name)]


class Credentials(Spec):
    """Where the provider's key is found: exactly one way."""

    env: Annotated[str, AfterValidator(_variable)] | None = None
    file: Annotated[Text, AfterValidator(_path)] | None = None
    secret_ref: SecretRef | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if sum(way is not None for way in (self.env, self.file, self.secret_ref)) != 1:
            raise ValueError("must have exactly one of env, file and secretRef")
        return self


class Quota(Spec):
    """What the provider allows."""

    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None
    concurrency: Annotated[int, Field(ge=1, le=1_000_000)] | None = None


class Timeouts(Spec):
    """Layered time limits."""

    connect_ms: PositiveDurationMs = Field(default=5_000, alias="connect")
    request_ms: PositiveDurationMs = Field(default=25_000, alias="request")
    stream_idle_ms: PositiveDurationMs = Field(default=60_000, alias="streamIdle")


class Warmup(Spec):
    """Requests that wake a provider after a pause."""

    requests: Count = 50
    prompt: Text = "Hello"
    idle_after_ms: PositiveDurationMs = Field(default=600_000, alias="idleAfter")


class BatchCapacity(Spec):
    """How large a batch the provider takes."""

    max_items: Count | None = None
    max_tokens: Count | None = None


class BackendSpec(Spec):
    """`spec` of a Backend."""

    url: Annotated[str, AfterValidator(check_url)]
    default: bool = False
    protocol: Literal["openai", "azure-openai"] = "openai"
    api_version: Annotated[str, AfterValidator(_api_version)] | None = None
    credentials: Credentials | None = None
    quota: Quota | None = None
    timeouts: Timeouts = Timeouts()
    http: Annotated[Literal["auto", "1.1", "2"], BeforeValidator(_http_version)] = "auto"
    warmup: Warmup | None = None
    batch: BatchCapacity | None = None

    @model_validator(mode="after")
    def _azure(self) -> Self:
        if self.api_version is not None and self.protocol != "azure-openai":
            raise ValueError("apiVersion is for protocol azure-openai only")
        if self.default and self.protocol == "azure-openai":
            raise ValueError(
                "default cannot be true for protocol azure-openai: a request that nobody has read "
                "names no deployment"
            )
        return self
