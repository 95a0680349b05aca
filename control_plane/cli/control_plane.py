"""`outrigger control-plane`: the API and the push stream in one process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from control_plane.cli.failures import CommandFailed
from control_plane.cli.options import LogLevel


def control_plane(
    *,
    files: Annotated[
        list[Path] | None,
        typer.Option("--file", "-f", help="File of documents (- is stdin); may be repeated.", metavar="FILE"),
    ] = None,
    api_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the API.")] = 8080,
    push_address: Annotated[
        str, typer.Option(help="Where sidecars connect: unix:/PATH or HOST:PORT.", metavar="ADDR")
    ] = "127.0.0.1:9900",
    bind: Annotated[str, typer.Option(help="Address the API listens on.", metavar="ADDR")] = "127.0.0.1",
    data_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for what is kept; no effect yet.")
    ] = None,
    min_ready_sidecars: Annotated[
        int, typer.Option(min=0, help="How many sidecars must serve the current policy to be ready.")
    ] = 0,
    log_level: Annotated[LogLevel, typer.Option(help="From which level on to log.")] = LogLevel.INFO,
    notices: Annotated[bool, typer.Option(hidden=True)] = True,
) -> None:
    """Run the control plane. Files are read once, at start. SIGINT or SIGTERM ends it."""
    from control_plane.push.server import PushAddressError  # noqa: PLC0415 - keeps --help quick
    from control_plane.resources.problems import InvalidDocumentsError  # noqa: PLC0415
    from control_plane.settings import ControlPlaneSettings  # noqa: PLC0415
    from control_plane.wiring import run_control_plane  # noqa: PLC0415

    settings = ControlPlaneSettings(
        api_host=bind,
        api_port=api_port,
        push_address=push_address,
        files=tuple(files or ()),
        min_ready_sidecars=min_ready_sidecars,
        log_level=log_level,
        show_notices=notices,
    )
    try:
        run_control_plane(settings)
    except InvalidDocumentsError as refused:
        raise CommandFailed("\n".join(problem.sentence() for problem in refused.problems)) from None
    except PushAddressError as error:
        raise CommandFailed(str(error)) from None
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        raise CommandFailed(
            f"cannot listen on {bind} port {api_port} ({reason}); choose another with --api-port or --bind"
        ) from None
