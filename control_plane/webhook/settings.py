"""How sidecars are put into pods, as the control plane's command line says (values only)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Final

Resources = Mapping[str, Mapping[str, str]]

PROXY_PORT: Final = 10000
ENVOY_IMAGE: Final = "envoyproxy/envoy:distroless-v1.40.0"
READY_PORT: Final = 19001
"""Where Envoy answers the kubelet; this and the next two move out of the way of the pod's own ports."""
STATS_PORT: Final = 19002
ADMIN_PORT: Final = 19003


class Mode(StrEnum):
    """What the pair is in a pod: native sidecars, or containers beside the application's (before 1.29)."""

    NATIVE = "native"
    CLASSIC = "classic"


class PullPolicy(StrEnum):
    """When the kubelet fetches an image."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


def default_image() -> str:
    """Return the sidecar's image of this version."""
    return f"outrigger:{version('outrigger-llm')}"


def processor_resources() -> Resources:
    """Return what the processor's container asks for by default: no CPU limit, which only adds latency."""
    return {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}}


def envoy_resources() -> Resources:
    """Return what Envoy's container asks for by default."""
    return {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}}


@dataclass(frozen=True, slots=True)
class InjectionSettings:
    """What the pair is made of.

    `control_plane` is HOST:PORT of the push stream as pods see it, `authority` the PEM text that its
    certificate is verified against, None for a stream in clear. `redis` is a URL without credentials;
    `redis_secret` names a Secret of the pod's namespace whose key `url` is one with them. `variables` are set
    like `OPENAI_BASE_URL`. Pods of `own_namespace` are left alone.
    """

    control_plane: str
    authority: str | None = None
    image: str = field(default_factory=default_image)
    envoy_image: str = ENVOY_IMAGE
    pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    pull_secrets: tuple[str, ...] = ()
    proxy_port: int = PROXY_PORT
    mode: Mode = Mode.NATIVE
    redis: str | None = None
    redis_secret: str | None = None
    variables: tuple[str, ...] = ()
    processor_resources: Resources = field(default_factory=processor_resources)
    envoy_resources: Resources = field(default_factory=envoy_resources)
    own_namespace: str | None = None
    version: str = field(default_factory=lambda: version("outrigger-llm"))


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """How the control plane works with the cluster it runs in.

    With `port` it serves reviews, by the PEM files `certificate` and `key` or by a certificate of its own,
    kept in the Secret `secret` of `namespace`, for servers called `names`, and told to the
    MutatingWebhookConfiguration `registration`. With `token_review` sidecars join by their service accounts.
    """

    injection: InjectionSettings
    port: int | None = None
    certificate: Path | None = None
    key: Path | None = None
    registration: str | None = None
    secret: str = "outrigger-webhook"
    names: tuple[str, ...] = ()
    namespace: str | None = None
    token_review: bool = False

    @property
    def self_managed(self) -> bool:
        """Whether the certificate is one of our own."""
        return self.port is not None and self.certificate is None
