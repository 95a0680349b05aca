"""`outrigger up`: the whole mesh on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from control_plane.cli.options import (
    DEFAULT_DATA_DIR,
    AdminPort,
    AdminToken,
    CacheDatabase,
    Database,
    DataDir,
    LogLevel,
    MetricsPort,
    ProxyPort,
    Redis,
    Workers,
)


def up(
    *,
    files: Annotated[
        list[Path] | None,
        typer.Option("--file", "-f", help="File or folder of documents; may be repeated.", metavar="FILE"),
    ] = None,
    proxy_port: ProxyPort = 10000,
    api_port: Annotated[
        int, typer.Option(min=1, max=65535, metavar="PORT", help="The control plane's API.")
    ] = 8080,
    metrics_port: MetricsPort = 9102,
    envoy_admin_port: AdminPort = 9901,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    workers: Workers = 1,
    bind: Annotated[
        str, typer.Option(metavar="ADDR", help="Where proxy, API and metrics listen.")
    ] = "127.0.0.1",
    redis: Redis = None,
    cache_database: CacheDatabase = None,
    database: Database = None,
    admin_token: AdminToken = None,
    log_level: Annotated[LogLevel, typer.Option(help="From which level on to log.")] = LogLevel.WARNING,
) -> None:
    """Run control plane, agent, processors and Envoy on this machine, and keep them up.

    Without a file, a demo with the built-in simulated provider. Ready when /readyz of the API says 200.
    Ctrl-C stops everything cleanly. What is kept goes to .outrigger in the current folder, or --data-dir:
    files are applied again at the next start, and what the API made besides stays.
    """
    from control_plane.cli.launcher.run import launch  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.launcher.settings import LaunchSettings  # noqa: PLC0415

    settings = LaunchSettings(
        data_dir=data_dir.absolute(),
        proxy_port=proxy_port,
        api_port=api_port,
        metrics_port=metrics_port,
        envoy_admin_port=envoy_admin_port,
        files=tuple(file if str(file) == "-" else file.absolute() for file in files) if files else None,
        bind=bind,
        workers=workers,
        log_level=log_level,
        redis=redis,
        cache_database=cache_database or _shared(database),
        database=database or None,
        admin_token=admin_token or None,
    )
    launch(settings, os.environ)


def _shared(database: str | None) -> str | None:
    # A database that is there for the policy keeps answers, too.
    return database if database and database.startswith(("postgresql://", "postgres://")) else None
