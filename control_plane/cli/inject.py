"""`outrigger inject`: put sidecars into manifests, offline."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

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
    injection_settings,
)
from control_plane.webhook.settings import Mode, PullPolicy


def inject(
    *,
    files: Annotated[
        list[Path],
        typer.Option("--file", "-f", help="File of manifests (- is stdin); may be repeated.", metavar="FILE"),
    ],
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Of documents that name none.", metavar="NAME")
    ] = "",
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
) -> None:
    """Print manifests with a sidecar pair in every pod and every template of pods.

    What the webhook does to pods, for clusters without it. Other documents are printed as they are; pods
    that are left alone are named on stderr, with the reason.
    """
    # Imported here to keep --help quick.
    from control_plane.cli.printing import write  # noqa: PLC0415
    from control_plane.webhook.manifests import UnreadableManifestError, inject_manifests  # noqa: PLC0415

    settings = injection_settings(
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
        own_namespace=os.environ.get("POD_NAMESPACE", "").strip() or None,
    )
    # Each file is read before anything is printed: half of an output is nothing to apply.
    printed = ""
    for path in files:
        try:
            manifest = inject_manifests(_read(path), settings, namespace)
        except UnreadableManifestError as error:
            raise CommandFailed(f"{_called(path)}: {error}") from None
        for warning in manifest.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        apart = "---\n" if printed and not manifest.text.lstrip().startswith("---") else ""
        printed += ("\n" if printed and not printed.endswith("\n") else "") + apart + manifest.text
    write(printed)


def _read(path: Path) -> str:
    try:
        content = sys.stdin.buffer.read() if path == Path("-") else path.read_bytes()
        return content.decode("utf-8")
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read ({(error.strerror or 'unreadable').lower()})") from None
    except UnicodeDecodeError:
        raise CommandFailed(f"{_called(path)} is no UTF-8 text") from None


def _called(path: Path) -> str:
    return "stdin" if path == Path("-") else str(path)
