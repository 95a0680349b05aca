"""`outrigger control-plane`: the API and the push stream in one process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from control_plane.cli.failures import CommandFailed
from control_plane.cli.injection import (
    DEFAULT_ENVOY_IMAGE,
    DEFAULT_PROXY_PORT,
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
    TokenReview,
    WebhookCert,
    WebhookKey,
    WebhookName,
    WebhookPort,
    WebhookSecret,
    WebhookService,
    injection_settings,
    webhook_settings,
)
from control_plane.cli.launcher.settings import address
from control_plane.cli.options import DEFAULT_DATA_DIR, AdminToken, Database, LogLevel
from control_plane.cli.serving import (
    ApiPort,
    Bind,
    KeptIn,
    MinReadySidecars,
    OpenMetricsPort,
    PlaygroundProxy,
    Prometheus,
    PushAddress,
    PushCert,
    PushClientCa,
    PushKey,
    PushPort,
    check_together,
    prometheus_url,
    proxy_origin,
)
from control_plane.webhook.settings import Mode, PullPolicy

if TYPE_CHECKING:
    from control_plane.settings import ControlPlaneSettings
    from control_plane.webhook.settings import WebhookSettings


def control_plane(
    *,
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--file", "-f", help="File or folder of documents (- is stdin); may be repeated.", metavar="FILE"
        ),
    ] = None,
    api_port: ApiPort = 8080,
    push_port: PushPort = 9900,
    metrics_port: OpenMetricsPort = None,
    push_address: PushAddress = None,
    push_cert: PushCert = None,
    push_key: PushKey = None,
    push_client_ca: PushClientCa = None,
    bind: Bind = "127.0.0.1",
    data_dir: KeptIn = DEFAULT_DATA_DIR,
    database: Database = None,
    admin_token: AdminToken = None,
    min_ready_sidecars: MinReadySidecars = 0,
    playground_proxy: PlaygroundProxy = None,
    prometheus: Prometheus = None,
    webhook_port: WebhookPort = None,
    webhook_cert: WebhookCert = None,
    webhook_key: WebhookKey = None,
    webhook_name: WebhookName = None,
    webhook_service: WebhookService = None,
    webhook_secret: WebhookSecret = "outrigger-webhook",
    token_review: TokenReview = False,
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
    check_together(push_cert, push_key, push_client_ca, webhook_cert, webhook_key)
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
        from control_plane.settings import ControlPlaneSettings, PushTls  # noqa: PLC0415

        proxy, metrics_from = proxy_origin(playground_proxy), prometheus_url(prometheus)
    settings = ControlPlaneSettings(
        api_host=bind,
        api_port=api_port,
        push_address=push_address or address(bind, push_port),
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
    _run(settings, cluster)


def _run(settings: ControlPlaneSettings, cluster: WebhookSettings | None) -> None:
    """Run it until a signal.

    Raises:
        CommandFailed: it cannot be started; the message says what to do.
    """
    from ext_proc.quick_start import quick_imports  # noqa: PLC0415

    with quick_imports():
        from control_plane.kubernetes_client import KubeConfigError, KubernetesError  # noqa: PLC0415
        from control_plane.push.server import PushAddressError  # noqa: PLC0415
        from control_plane.registry.errors import RegistryError  # noqa: PLC0415
        from control_plane.resources.problems import InvalidDocumentsError  # noqa: PLC0415
        from control_plane.webhook.tls import CertificateFilesError  # noqa: PLC0415
        from control_plane.wiring import run_control_plane  # noqa: PLC0415

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
            f"cannot listen on {settings.api_host} port {settings.api_port} ({reason}); "
            "choose another with --api-port or --bind"
        ) from None
