"""One launch from beginning to end: checks, folders, processes, signals, and nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from control_plane.cli.failures import CommandFailed
from control_plane.cli.launcher.mesh import Mesh, control_plane_probe, envoy_probe
from control_plane.cli.launcher.plan import LOOPBACK, plan
from control_plane.cli.launcher.preflight import (
    check_credentials,
    check_database,
    check_envoy,
    check_ports,
    claimed,
    kept_port,
    secret_variables,
    unmounted_secrets,
)
from control_plane.cli.launcher.screen import Screen, first_notices, log_writer, warn
from control_plane.cli.launcher.settings import LaunchSettings, address, reachable
from control_plane.cli.signals import hand_signals_to, ignore_signals, signals_held

if TYPE_CHECKING:
    from control_plane.resources.documents import Documents

STDERR: Final = 2
DATABASE: Final = "outrigger.db"
PROVIDER_PORT: Final = "provider-port"
READY_LIMIT_S: Final = 60.0
# Unix sockets have 108 bytes for their path, and ours are called processor-255.sock at most.
MAX_RUN_DIR: Final = 80


def launch(settings: LaunchSettings, environment: Mapping[str, str]) -> None:
    """Run a mesh until SIGINT or SIGTERM.

    Raises:
        CommandFailed: it cannot be started; nothing is left running.
    """
    documents = _documents(settings)
    check_ports(settings)
    check_database(settings)
    if documents is not None:
        check_credentials(documents, environment)
    if not settings.external_envoy:
        check_envoy(environment, sys.path)
    with (
        claimed(settings.data_dir),
        _run_dir(settings.run_dir) as run_dir,
        log_writer(STDERR) as write,
    ):
        files, provider_port = settings.files or (), None
        if settings.demo:
            provider_port = kept_port(settings.data_dir / PROVIDER_PORT)
            demo = run_dir / "demo.yaml"
            from control_plane.resources.demo import demo_yaml  # noqa: PLC0415 - a sidecar needs none of it

            demo.write_text(demo_yaml(f"http://{LOOPBACK}:{provider_port}/v1"), encoding="utf-8")
            files = (demo,)
        if documents is not None:
            warn(first_notices([notice.sentence() for notice in documents.notices]))
            if settings.database is None and not (settings.data_dir / DATABASE).exists():
                warn(unmounted_secrets(documents, settings.data_dir / "secrets"))
        specs = plan(
            settings,
            run_dir,
            environment=environment,
            files=files,
            secret_variables=secret_variables(documents) if documents is not None else frozenset(),
            provider_port=provider_port,
        )
        screen = Screen(Console())
        mesh = Mesh(specs, write, screen.hear)
        models = list(documents.models) if documents is not None else []
        asyncio.run(_run(settings, mesh, screen, models))


def _documents(settings: LaunchSettings) -> Documents | None:
    """Return what the files say, None for a sidecar: what reads documents is a third of a small process."""
    if settings.api_port is None:
        return None
    from control_plane.resources.documents import Documents, load_documents  # noqa: PLC0415
    from control_plane.resources.problems import InvalidDocumentsError  # noqa: PLC0415

    if settings.files is None:
        return Documents()
    if Path("-") in settings.files:
        raise CommandFailed("up reads its files again when a process is restarted; give a file instead of -")
    try:
        return load_documents(settings.files)
    except InvalidDocumentsError as refused:
        raise CommandFailed("\n".join(problem.sentence() for problem in refused.problems)) from None


@contextlib.contextmanager
def _run_dir(wanted: Path | None) -> Iterator[Path]:
    """Yield the run folder with an empty `metrics` folder; a temporary one is removed afterwards."""
    with contextlib.ExitStack() as afterwards:
        if wanted is not None:
            wanted.mkdir(mode=0o700, parents=True, exist_ok=True)
            made = wanted.absolute()
        else:
            # A signal between the folder and the promise to remove it would leave it behind.
            with signals_held():
                made = Path(tempfile.mkdtemp(prefix="outrigger-"))
                if len(str(made)) > MAX_RUN_DIR:
                    made.rmdir()
                    made = Path(tempfile.mkdtemp(prefix="outrigger-", dir="/tmp"))
                afterwards.callback(shutil.rmtree, made, ignore_errors=True)
        shutil.rmtree(made / "metrics", ignore_errors=True)
        (made / "metrics").mkdir(mode=0o700)
        yield made


async def _run(settings: LaunchSettings, mesh: Mesh, screen: Screen, models: list[str]) -> None:
    stopping, hurry = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        if stopping.is_set():
            hurry.set()
        stopping.set()

    hand_signals_to(asyncio.get_running_loop(), on_signal)
    admin_url = f"http://{address(LOOPBACK, settings.envoy_admin_port)}"
    if settings.api_port is not None:
        probe = control_plane_probe(f"http://{address(reachable(settings.bind), settings.api_port)}")
        limit_s: float | None = READY_LIMIT_S
    else:
        # In a pod the control plane may come later: the sidecar waits as long as it takes.
        probe, limit_s = envoy_probe(admin_url), None
    screen.line("starting the mesh; Ctrl-C stops it")
    mesh.start()
    stopped = asyncio.create_task(stopping.wait())
    readying = asyncio.create_task(mesh.wait_ready(probe, limit_s, screen.progress))
    try:
        await asyncio.wait((stopped, readying), return_when=asyncio.FIRST_COMPLETED)
        if readying.done():
            readying.result()
            screen.ready(settings, models)
            await stopped
            screen.line("stopping: requests in flight may finish; Ctrl-C again to hurry")
    finally:
        readying.cancel()
        stopped.cancel()
        await asyncio.gather(readying, stopped, return_exceptions=True)
        screen.settle()
        # Not only once we know it is ready: Envoy may have served for a moment by then.
        await mesh.stop(None if settings.external_envoy else admin_url, hurry)
        ignore_signals()
