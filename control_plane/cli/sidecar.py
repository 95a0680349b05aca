"""`outrigger sidecar`: the half of the mesh that stands beside one application."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated

import typer

from control_plane.cli.options import (
    DEFAULT_DATA_DIR,
    AdminPort,
    CacheDatabase,
    DataDir,
    LogLevel,
    MetricsPort,
    ProxyPort,
    Redis,
    Workers,
    redis_url,
)


def sidecar(
    *,
    control_plane: Annotated[
        str, typer.Option(metavar="ADDR", help="Where policy comes from: HOST:PORT or unix:/PATH.")
    ],
    workload: Annotated[str, typer.Option(metavar="NAME", help="What Policies call it.")] = "default",
    sidecar_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Unique among sidecars; the host name by default.")
    ] = None,
    proxy_port: ProxyPort = 10000,
    metrics_port: MetricsPort = 9102,
    envoy_admin_port: AdminPort = 9901,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    run_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the sockets, shared with an external Envoy."),
    ] = None,
    workers: Workers = 1,
    bind: Annotated[str, typer.Option(metavar="ADDR", help="Where proxy and metrics listen.")] = "127.0.0.1",
    metrics_bind: Annotated[
        str | None,
        typer.Option(
            metavar="ADDR", help="Where metrics listen, if not on --bind; * is every address of this machine."
        ),
    ] = None,
    external_envoy: Annotated[
        bool,
        typer.Option(
            "--external-envoy", help="Envoy runs elsewhere, by RUN_DIR/envoy.yaml (needs --run-dir)."
        ),
    ] = False,
    health_port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            metavar="PORT",
            help="Where an external Envoy answers /healthz, on the address of the metrics.",
        ),
    ] = None,
    control_plane_ca: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Authority of the control plane's certificate (PEM): use TLS."),
    ] = None,
    client_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="This sidecar's certificate (PEM).")
    ] = None,
    client_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its key (PEM).")] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File of the token to join with; else OUTRIGGER_TOKEN holds it."),
    ] = None,
    redis: Redis = None,
    redis_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File of Redis's URL, in the place of --redis; absent, there is none."
        ),
    ] = None,
    cache_database: CacheDatabase = None,
    log_level: Annotated[LogLevel, typer.Option(help="From which level on to log.")] = LogLevel.WARNING,
) -> None:
    """Run agent, processors and Envoy, following a control plane elsewhere.

    Without the control plane it serves the last policy it had (kept in --data-dir).
    """
    from control_plane.cli.launcher.run import launch  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.launcher.settings import LaunchSettings, StreamFiles, every_address  # noqa: PLC0415

    if external_envoy and run_dir is None:
        raise typer.BadParameter("needs --run-dir, shared with Envoy", param_hint="--external-envoy")
    if health_port is not None and not external_envoy:
        raise typer.BadParameter("is for --external-envoy", param_hint="--health-port")
    if (client_cert is None) is not (client_key is None):
        raise typer.BadParameter("--client-cert and --client-key go together", param_hint="--client-cert")
    settings = LaunchSettings(
        data_dir=data_dir.absolute(),
        proxy_port=proxy_port,
        metrics_port=metrics_port,
        envoy_admin_port=envoy_admin_port,
        control_plane=control_plane,
        bind=bind,
        metrics_bind=every_address() if metrics_bind == "*" else metrics_bind,
        health_port=health_port,
        workers=workers,
        workload=workload,
        sidecar_id=sidecar_id or socket.gethostname(),
        external_envoy=external_envoy,
        run_dir=run_dir,
        log_level=log_level,
        redis=_redis_of(redis_file) or redis,
        cache_database=cache_database,
        stream=StreamFiles(
            ca=_absolute(control_plane_ca),
            client_cert=_absolute(client_cert),
            client_key=_absolute(client_key),
            token=_absolute(token_file),
        ),
    )
    launch(settings, os.environ)


def _redis_of(path: Path | None) -> str | None:
    """Return the URL in the file at `path`; a file that is not there says that there is no Redis."""
    if path is None or not path.exists():
        return None
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        raise typer.BadParameter(f"{path} cannot be read", param_hint="--redis-file") from None
    try:
        return redis_url(text)
    except typer.BadParameter as error:
        raise typer.BadParameter(f"{path}: {error}", param_hint="--redis-file") from None


def _absolute(path: Path | None) -> Path | None:
    return path.absolute() if path is not None else None
