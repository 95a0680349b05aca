"""`outrigger control-plane`: the API and the push stream in one process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from control_plane.cli.failures import CommandFailed
from control_plane.cli.injection import (
    DEFAULT_ENVOY_IMAGE,
    DEFAULT_PROXY_PORT,
    PANEL,
    EnvoyImage,
    EnvoyResources,
    ImagePullPolicy,
    ProcessorResources,
    SidecarControlPlane,
    SidecarControlPlaneCa,
    SidecarImage,
    SidecarMode,
    SidecarProxyPort,
    SidecarPullSecrets,
    SidecarRedis,
    SidecarRedisSecret,
    SidecarVariables,
    injection_settings,
    webhook_settings,
)
from control_plane.cli.options import DEFAULT_DATA_DIR, AdminToken, Database, LogLevel
from control_plane.webhook.settings import Mode, PullPolicy


def control_plane(
    *,
    files: Annotated[
        list[Path] | None,
        typer.Option("--file", "-f", help="File of documents (- is stdin); may be repeated.", metavar="FILE"),
    ] = None,
    api_port: Annotated[
        int,
        typer.Option(min=1, max=65535, metavar="PORT", envvar="OUTRIGGER_API_PORT", help="The API."),
    ] = 8080,
    push_port: Annotated[
        int,
        typer.Option(
            min=1, max=65535, metavar="PORT", envvar="OUTRIGGER_PUSH_PORT", help="Where sidecars connect."
        ),
    ] = 9900,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            metavar="PORT",
            envvar="OUTRIGGER_METRICS_PORT",
            help="Metrics without a token; else they are on the API's port only.",
        ),
    ] = None,
    push_address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDR",
            envvar="OUTRIGGER_PUSH_ADDRESS",
            help="unix:/PATH or HOST:PORT, in the place of --bind and --push-port.",
        ),
    ] = None,
    push_cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="OUTRIGGER_PUSH_CERT", help="Certificate (PEM): push over TLS."),
    ] = None,
    push_key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="OUTRIGGER_PUSH_KEY", help="Key of the certificate (PEM)."),
    ] = None,
    push_client_ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="OUTRIGGER_PUSH_CLIENT_CA",
            help="Sidecars must show a certificate of this authority (PEM).",
        ),
    ] = None,
    bind: Annotated[
        str,
        typer.Option(metavar="ADDR", envvar="OUTRIGGER_BIND", help="Address that the ports listen on."),
    ] = "127.0.0.1",
    data_dir: Annotated[
        Path, typer.Option(metavar="DIR", envvar="OUTRIGGER_DATA_DIR", help="What is kept over restarts.")
    ] = DEFAULT_DATA_DIR,
    database: Database = None,
    admin_token: AdminToken = None,
    min_ready_sidecars: Annotated[
        int, typer.Option(min=0, help="How many sidecars must serve the current policy to be ready.")
    ] = 0,
    playground_proxy: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="OUTRIGGER_PLAYGROUND_PROXY",
            help="The proxy that the dashboard's playground asks (http://HOST:PORT); none without it.",
        ),
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="OUTRIGGER_PROMETHEUS",
            help="The Prometheus that gates of Releases ask (http://HOST:9090).",
        ),
    ] = None,
    webhook_port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            metavar="PORT",
            envvar="OUTRIGGER_WEBHOOK_PORT",
            help="Put sidecars into pods: /inject over TLS.",
            rich_help_panel=PANEL,
        ),
    ] = None,
    webhook_cert: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="OUTRIGGER_WEBHOOK_CERT",
            help="Its certificate (PEM); else one of our own, kept in a Secret.",
            rich_help_panel=PANEL,
        ),
    ] = None,
    webhook_key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="OUTRIGGER_WEBHOOK_KEY",
            help="Key of the certificate (PEM).",
            rich_help_panel=PANEL,
        ),
    ] = None,
    webhook_name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            envvar="OUTRIGGER_WEBHOOK_NAME",
            help="The MutatingWebhookConfiguration that is given our own authority.",
            rich_help_panel=PANEL,
        ),
    ] = None,
    webhook_service: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            envvar="OUTRIGGER_WEBHOOK_SERVICE",
            help="NAME.NAMESPACE.svc that the API server calls.",
            rich_help_panel=PANEL,
        ),
    ] = None,
    webhook_secret: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            envvar="OUTRIGGER_WEBHOOK_SECRET",
            help="The Secret of our own certificate.",
            rich_help_panel=PANEL,
        ),
    ] = "outrigger-webhook",
    token_review: Annotated[
        bool,
        typer.Option(
            "--token-review",
            envvar="OUTRIGGER_TOKEN_REVIEW",
            help="Let sidecars join by their pods' service accounts.",
            rich_help_panel=PANEL,
        ),
    ] = False,
    sidecar_image: SidecarImage = None,
    envoy_image: EnvoyImage = DEFAULT_ENVOY_IMAGE,
    image_pull_policy: ImagePullPolicy = PullPolicy.IF_NOT_PRESENT,
    sidecar_pull_secrets: SidecarPullSecrets = "",
    sidecar_proxy_port: SidecarProxyPort = DEFAULT_PROXY_PORT,
    sidecar_control_plane: SidecarControlPlane = None,
    sidecar_control_plane_ca: SidecarControlPlaneCa = None,
    sidecar_redis: SidecarRedis = None,
    sidecar_redis_secret: SidecarRedisSecret = None,
    sidecar_mode: SidecarMode = Mode.NATIVE,
    sidecar_variables: SidecarVariables = "",
    sidecar_processor_resources: ProcessorResources = None,
    sidecar_envoy_resources: EnvoyResources = None,
    log_level: Annotated[LogLevel, typer.Option(help="From which level on to log.")] = LogLevel.INFO,
    demo: Annotated[bool, typer.Option("--demo", hidden=True)] = False,
    notices: Annotated[bool, typer.Option(hidden=True)] = True,
) -> None:
    """Run the control plane: the API, the push stream and the store of policy.

    Files are applied at the start; what the API made besides is kept. The first start without an admin
    token prints one, once. SIGINT or SIGTERM ends it.
    """
    if (push_cert is None) is not (push_key is None):
        raise typer.BadParameter("--push-cert and --push-key go together", param_hint="--push-cert")
    if push_client_ca is not None and push_cert is None:
        raise typer.BadParameter("needs --push-cert and --push-key", param_hint="--push-client-ca")
    if (webhook_cert is None) is not (webhook_key is None):
        raise typer.BadParameter("--webhook-cert and --webhook-key go together", param_hint="--webhook-cert")
    cluster = None
    if webhook_port is not None or token_review:
        from control_plane.kubernetes_client import own_namespace  # noqa: PLC0415 - only in a cluster

        cluster = webhook_settings(
            injection_settings(
                sidecar_image=sidecar_image,
                envoy_image=envoy_image,
                image_pull_policy=image_pull_policy,
                sidecar_pull_secrets=sidecar_pull_secrets,
                sidecar_proxy_port=sidecar_proxy_port,
                sidecar_control_plane=sidecar_control_plane,
                sidecar_control_plane_ca=sidecar_control_plane_ca,
                sidecar_redis=sidecar_redis,
                sidecar_redis_secret=sidecar_redis_secret,
                sidecar_mode=sidecar_mode,
                sidecar_variables=sidecar_variables,
                sidecar_processor_resources=sidecar_processor_resources,
                sidecar_envoy_resources=sidecar_envoy_resources,
                own_namespace=own_namespace(os.environ),
            ),
            port=webhook_port,
            certificate=webhook_cert,
            key=webhook_key,
            registration=webhook_name,
            service=webhook_service,
            secret=webhook_secret,
            token_review=token_review,
        )
    # Imported here to keep --help quick.
    from ext_proc.quick_start import quick_imports  # noqa: PLC0415

    with quick_imports():
        from control_plane.kubernetes_client import KubeConfigError, KubernetesError  # noqa: PLC0415
        from control_plane.playground import origin_of  # noqa: PLC0415
        from control_plane.push.server import PushAddressError  # noqa: PLC0415
        from control_plane.registry.errors import RegistryError  # noqa: PLC0415
        from control_plane.resources.problems import InvalidDocumentsError  # noqa: PLC0415
        from control_plane.resources.urls import check_url  # noqa: PLC0415
        from control_plane.settings import ControlPlaneSettings, PushTls  # noqa: PLC0415
        from control_plane.webhook.tls import CertificateFilesError  # noqa: PLC0415
        from control_plane.wiring import run_control_plane  # noqa: PLC0415

    try:
        proxy = origin_of(playground_proxy) if playground_proxy else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--playground-proxy") from None
    try:
        metrics_from = check_url(prometheus) if prometheus else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--prometheus") from None
    settings = ControlPlaneSettings(
        api_host=bind,
        api_port=api_port,
        push_address=push_address or _address(bind, push_port),
        push_tls=PushTls(push_cert, push_key, push_client_ca) if push_cert and push_key else None,
        metrics_port=metrics_port,
        data_dir=data_dir.absolute(),
        database=database or None,
        admin_token=admin_token or None,
        files=tuple(files or ()),
        demo=demo,
        min_ready_sidecars=min_ready_sidecars,
        log_level=log_level,
        playground_proxy=proxy,
        show_notices=notices,
        prometheus=metrics_from,
    )
    try:
        run_control_plane(settings, cluster)
    except InvalidDocumentsError as refused:
        raise CommandFailed("\n".join(problem.sentence() for problem in refused.problems)) from None
    except (PushAddressError, RegistryError, CertificateFilesError) as error:
        raise CommandFailed(str(error)) from None
    except KubeConfigError:
        raise CommandFailed(
            "there is no cluster here: run in a pod, set KUBECONFIG, or give --webhook-cert and "
            "--webhook-key and leave --token-review out"
        ) from None
    except KubernetesError as error:
        raise CommandFailed(f"the webhook has no certificate: {error}") from None
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        raise CommandFailed(
            f"cannot listen on {bind} port {api_port} ({reason}); choose another with --api-port or --bind"
        ) from None


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
