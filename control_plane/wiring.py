"""The only place in the control plane that names concrete classes and runs them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import structlog
import uvicorn

from control_plane.api.app import create_app
from control_plane.push.fleet import Fleet
from control_plane.push.policy import Policy
from control_plane.push.server import PushServer
from control_plane.resources.compile import compile_snapshot
from control_plane.resources.documents import load_documents
from control_plane.settings import ControlPlaneSettings
from ext_proc.telemetry.logs import configure_logging

FIRST_REVISION = 1
API_STOP_S = 2


class _ApiServer(uvicorn.Server):
    """Uvicorn without its own signal handling: the process stops as a whole."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


def run_control_plane(settings: ControlPlaneSettings) -> None:
    """Serve the API and the push stream until SIGINT or SIGTERM.

    Raises:
        InvalidDocumentsError: a file of `settings` is refused.
        PushAddressError: the push address cannot be listened on.
        OSError: the API's address cannot be listened on.
    """
    asyncio.run(_serve(settings))


async def _serve(settings: ControlPlaneSettings) -> None:
    configure_logging("control-plane", settings.log_level)
    log = structlog.get_logger("control-plane")
    stdin = sys.stdin.buffer.read() if Path("-") in settings.files else None
    documents = load_documents(settings.files, stdin)
    if settings.show_notices:
        for notice in documents.notices:
            log.warning("no effect yet", document=notice.document, field=notice.field, place=notice.place)
    loop = asyncio.get_running_loop()
    fleet = Fleet(
        clock=time.monotonic,
        now=lambda: datetime.now(UTC),
        later=loop.call_later,
        on_halt=lambda revision, reason: None,
        mark=os.urandom(32),
        log=log,
    )
    fleet.publish(
        Policy(FIRST_REVISION, lambda workload: compile_snapshot(documents, workload, FIRST_REVISION))
    )

    app = create_app(fleet, version=version("outrigger-llm"), min_ready_sidecars=settings.min_ready_sidecars)
    api = _ApiServer(
        uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=API_STOP_S)
    )
    push = PushServer(fleet, settings.push_address, log, tls=settings.push_tls)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, setattr, api, "should_exit", True)
    with _listen(settings.api_host, settings.api_port) as listener:
        await push.start()
        log.info("serving", api=f"{settings.api_host}:{settings.api_port}", push=settings.push_address)
        await api.serve(sockets=[listener])
    await push.stop()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener
