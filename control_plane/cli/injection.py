"""Options of injection, which the control plane and `outrigger inject` share, and the settings from them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import orjson
import typer

from control_plane.cli.options import redis_url
from control_plane.webhook.quantities import amount
from control_plane.webhook.settings import (
    ENVOY_IMAGE,
    PROXY_PORT,
    InjectionSettings,
    Mode,
    PullPolicy,
    Resources,
    WebhookSettings,
    default_image,
    envoy_resources,
    processor_resources,
)

PANEL: Final = "Injection"
DEFAULT_NAMESPACE: Final = "outrigger-system"
_ENVIRONMENT_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DNS_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def _option(variable: str, text: str, **more: Any) -> Any:
    return typer.Option(envvar=f"OUTRIGGER_{variable}", help=text, rich_help_panel=PANEL, **more)


# The webhook, which the control plane serves.
WebhookPort = Annotated[
    int | None,
    _option("WEBHOOK_PORT", "Put sidecars into pods: /inject over TLS.", metavar="PORT", min=1, max=65535),
]
WebhookCert = Annotated[
    Path | None,
    _option("WEBHOOK_CERT", "Its certificate (PEM); else one of our own, kept in a Secret.", metavar="FILE"),
]
WebhookKey = Annotated[Path | None, _option("WEBHOOK_KEY", "Key of the certificate (PEM).", metavar="FILE")]
WebhookName = Annotated[
    str | None,
    _option(
        "WEBHOOK_NAME",
        "The MutatingWebhookConfiguration that is given our own authority.",
        metavar="NAME",
    ),
]
WebhookService = Annotated[
    str | None, _option("WEBHOOK_SERVICE", "NAME.NAMESPACE.svc that the API server calls.", metavar="NAME")
]
WebhookSecret = Annotated[
    str, _option("WEBHOOK_SECRET", "The Secret of our own certificate.", metavar="NAME")
]
TokenReview = Annotated[
    bool,
    typer.Option(
        "--token-review",
        envvar="OUTRIGGER_TOKEN_REVIEW",
        help="Let sidecars join by their pods' service accounts.",
        rich_help_panel=PANEL,
    ),
]

# What it puts into pods, as `outrigger inject` does.
SidecarImage = Annotated[
    str | None, _option("SIDECAR_IMAGE", "Image of the processor's container.", metavar="IMAGE")
]
EnvoyImage = Annotated[str, _option("ENVOY_IMAGE", "Image of Envoy's container.", metavar="IMAGE")]
ImagePullPolicy = Annotated[PullPolicy, _option("IMAGE_PULL_POLICY", "When images are fetched.")]
SidecarPullSecrets = Annotated[
    str,
    _option("SIDECAR_PULL_SECRETS", "Pull secrets of the pods' namespaces, by commas.", metavar="NAMES"),
]
SidecarProxyPort = Annotated[
    int,
    _option("SIDECAR_PROXY_PORT", "The proxy's port in pods.", metavar="PORT", min=1024, max=65535),
]
SidecarControlPlane = Annotated[
    str | None,
    _option("SIDECAR_CONTROL_PLANE", "HOST:PORT of the push stream as pods see it.", metavar="ADDR"),
]
SidecarControlPlaneCa = Annotated[
    Path | None,
    _option("SIDECAR_CONTROL_PLANE_CA", "Authority of its certificate (PEM), for pods.", metavar="FILE"),
]
SidecarRedis = Annotated[
    str | None,
    _option("SIDECAR_REDIS", "Redis of the sidecars, without credentials.", metavar="URL"),
]
SidecarRedisSecret = Annotated[
    str | None,
    _option(
        "SIDECAR_REDIS_SECRET", "Secret of the pods' namespaces whose key url is Redis's.", metavar="NAME"
    ),
]
SidecarMode = Annotated[
    Mode, _option("SIDECAR_MODE", "Native sidecars, or containers beside the application's.")
]
SidecarVariables = Annotated[
    str,
    _option("SIDECAR_VARIABLES", "Variables set like OPENAI_BASE_URL, by commas.", metavar="NAMES"),
]
ProcessorResources = Annotated[
    str | None,
    _option("SIDECAR_PROCESSOR_RESOURCES", "The processor's resources, as JSON.", metavar="JSON"),
]
EnvoyResources = Annotated[
    str | None, _option("SIDECAR_ENVOY_RESOURCES", "Envoy's resources, as JSON.", metavar="JSON")
]

DEFAULT_ENVOY_IMAGE: Final = ENVOY_IMAGE
DEFAULT_PROXY_PORT: Final = PROXY_PORT


def injection_settings(
    *,
    sidecar_image: str | None,
    envoy_image: str,
    image_pull_policy: PullPolicy,
    sidecar_pull_secrets: str,
    sidecar_proxy_port: int,
    sidecar_control_plane: str | None,
    sidecar_control_plane_ca: Path | None,
    sidecar_redis: str | None,
    sidecar_redis_secret: str | None,
    sidecar_mode: Mode,
    sidecar_variables: str,
    sidecar_processor_resources: str | None,
    sidecar_envoy_resources: str | None,
    own_namespace: str | None,
) -> InjectionSettings:
    """Return the settings that the options come to.

    Raises:
        typer.BadParameter: one of them cannot be used.
    """
    home = own_namespace or DEFAULT_NAMESPACE
    return InjectionSettings(
        control_plane=_host_and_port(sidecar_control_plane or f"outrigger-push.{home}.svc:9900"),
        authority=_authority(sidecar_control_plane_ca),
        image=sidecar_image or default_image(),
        envoy_image=envoy_image,
        pull_policy=image_pull_policy,
        pull_secrets=_names(sidecar_pull_secrets, _DNS_NAME, "--sidecar-pull-secrets"),
        proxy_port=sidecar_proxy_port,
        mode=sidecar_mode,
        redis=_public_redis(sidecar_redis),
        redis_secret=next(
            iter(_names(sidecar_redis_secret or "", _DNS_NAME, "--sidecar-redis-secret")), None
        ),
        variables=_names(sidecar_variables, _ENVIRONMENT_NAME, "--sidecar-variables"),
        processor_resources=_resources(
            sidecar_processor_resources, processor_resources(), "--sidecar-processor-resources"
        ),
        envoy_resources=_resources(sidecar_envoy_resources, envoy_resources(), "--sidecar-envoy-resources"),
        own_namespace=own_namespace,
    )


def webhook_settings(
    injection: InjectionSettings,
    *,
    port: int | None,
    certificate: Path | None,
    key: Path | None,
    registration: str | None,
    service: str | None,
    secret: str,
    token_review: bool,
) -> WebhookSettings:
    """Return what the control plane is to do in its cluster, with the names that its certificate needs."""
    home = injection.own_namespace or DEFAULT_NAMESPACE
    called = service or f"outrigger-webhook.{home}.svc"
    names = (called, f"{called}.cluster.local", injection.control_plane.rpartition(":")[0])
    return WebhookSettings(
        injection,
        port=port,
        certificate=certificate,
        key=key,
        registration=registration or None,
        secret=secret,
        names=tuple(dict.fromkeys(names)),
        namespace=home,
        token_review=token_review,
    )


def _host_and_port(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise typer.BadParameter(f"{text!r} is not HOST:PORT", param_hint="--sidecar-control-plane")
    return text


def _authority(path: Path | None) -> str | None:
    if path is None:
        return None
    hint = "--sidecar-control-plane-ca"
    try:
        text = path.read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{path} cannot be read ({error})", param_hint=hint) from None
    if "BEGIN CERTIFICATE" not in text or "PRIVATE KEY" in text:
        raise typer.BadParameter(f"{path} must hold certificates only (PEM)", param_hint=hint)
    return text


def _public_redis(url: str | None) -> str | None:
    """Return a URL that may stand in a pod: one without credentials."""
    try:
        checked = redis_url(url)
    except typer.BadParameter as error:
        raise typer.BadParameter(str(error), param_hint="--sidecar-redis") from None
    if checked and urlsplit(checked).password:
        raise typer.BadParameter(
            "must hold no password, since it stands in pods; put it into a Secret of theirs and name "
            "that by --sidecar-redis-secret",
            param_hint="--sidecar-redis",
        )
    return checked


def _names(text: str, form: re.Pattern[str], hint: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if not form.fullmatch(name):
            raise typer.BadParameter(f"{name!r} is no such name", param_hint=hint)
    return names


def _resources(text: str | None, default: Resources, hint: str) -> Resources:
    if not text:
        return default
    try:
        given = orjson.loads(text)
        read = {kind: {what: str(value) for what, value in given[kind].items()} for kind in given}
        for kind, amounts in read.items():
            if kind not in {"requests", "limits"}:
                raise ValueError(f"{kind!r} is neither requests nor limits")
            for value in amounts.values():
                amount(value)
    except (ValueError, TypeError, AttributeError) as error:
        raise typer.BadParameter(f"is no JSON of resources ({error})", param_hint=hint) from None
    return read
