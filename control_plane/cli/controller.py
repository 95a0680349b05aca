"""`outrigger controller`: custom resources into the control plane, and its verdicts back to them."""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path
from typing import Annotated

import typer

from control_plane.cli.failures import CommandFailed
from control_plane.cli.options import DEFAULT_SERVER, Ca, LogLevel, Server

TOKEN_VARIABLE = "OUTRIGGER_TOKEN"


def controller(
    *,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The cluster; else KUBECONFIG, else the one this runs in."),
    ] = None,
    server: Server = DEFAULT_SERVER,
    ca: Ca = None,
    lease_namespace: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            envvar="POD_NAMESPACE",
            help="Namespace of the Lease, and of the Secrets that resources name.",
        ),
    ] = None,
    health_port: Annotated[
        int,
        typer.Option(
            min=1,
            max=65535,
            metavar="PORT",
            envvar="OUTRIGGER_HEALTH_PORT",
            help="/healthz, /readyz and /metrics.",
        ),
    ] = 8081,
    bind: Annotated[
        str,
        typer.Option(metavar="ADDR", envvar="OUTRIGGER_BIND", help="Address that the port listens on."),
    ] = "127.0.0.1",
    log_level: Annotated[LogLevel, typer.Option(help="From which level on to log.")] = LogLevel.INFO,
) -> None:
    """Mirror custom resources into the control plane, and write what it says into their status.

    OUTRIGGER_TOKEN holds a token of role admin. Of several replicas one leads, by a Lease; POD_NAME tells
    them apart. SIGINT or SIGTERM ends it, and another leads at once.
    """
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        raise CommandFailed(f"{TOKEN_VARIABLE} holds no token; make one: outrigger token create --role admin")
    if ca is not None and not ca.is_file():
        raise typer.BadParameter("there is no such file", param_hint="--ca")
    # Imported here to keep --help quick.
    from ext_proc.quick_start import quick_imports, started  # noqa: PLC0415

    with quick_imports():
        from control_plane.controller.running import run_controller  # noqa: PLC0415
        from control_plane.controller.settings import ControllerSettings  # noqa: PLC0415
        from control_plane.kubernetes_client import KubeConfigError, own_namespace  # noqa: PLC0415
        from control_plane.resources.urls import check_url  # noqa: PLC0415
    started()
    namespace = lease_namespace or own_namespace(os.environ)
    if not namespace:
        raise typer.BadParameter("is needed outside a pod (or POD_NAMESPACE)", param_hint="--lease-namespace")
    try:
        server = check_url(server)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--server") from None
    settings = ControllerSettings(
        server=server,
        token=token,
        namespace=namespace,
        identity=os.environ.get("POD_NAME") or f"{socket.gethostname()}-{secrets.token_hex(4)}",
        health_port=health_port,
        bind=bind,
        kubeconfig=kubeconfig,
        ca=ca,
        log_level=log_level,
    )
    try:
        run_controller(settings)
    except KubeConfigError as error:
        raise CommandFailed(str(error)) from None
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        raise CommandFailed(
            f"cannot listen on {bind} port {health_port} ({reason}); choose another with --health-port"
        ) from None
