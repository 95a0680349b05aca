"""Runs one replica of the controller until a signal ends it; names its concrete classes."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import time
from datetime import UTC, datetime
from typing import Final

import structlog
import uvloop

from control_plane.controller.election import Election
from control_plane.controller.health import Health
from control_plane.controller.leading import Leading
from control_plane.controller.metrics import Metrics
from control_plane.controller.mirror import Mirror
from control_plane.controller.settings import ControllerSettings
from control_plane.kubernetes_client import connect
from ext_proc.telemetry.logs import configure_logging

STOP_WITHIN_S: Final = 8.0


def run_controller(settings: ControllerSettings) -> None:
    """Serve until SIGINT or SIGTERM.

    Raises:
        KubeConfigError: there is no way to a cluster.
        OSError: the health port cannot be listened on, or `ca` cannot be read.
    """
    configure_logging("controller", settings.log_level)
    uvloop.run(_serve(settings))


async def _serve(settings: ControllerSettings) -> None:
    log = structlog.get_logger("controller")
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    tls = ssl.create_default_context(cafile=str(settings.ca)) if settings.ca is not None else None
    kubernetes = await connect(settings.kubeconfig, os.environ)
    mirror = Mirror(settings.server, settings.token, tls)
    metrics = Metrics()
    health = Health(time.monotonic, metrics.text)
    election = Election(
        kubernetes,
        settings.namespace,
        settings.identity,
        clock=time.monotonic,
        now=_now,
        log=log,
        heard=health.heard,
        leads=metrics.leads,
    )

    async def lead() -> None:
        leading = Leading(
            kubernetes,
            mirror,
            settings.namespace,
            clock=time.monotonic,
            now=_now,
            holds=lambda: election.holds,
            log=log,
            metrics=metrics,
        )
        await leading.run()

    try:
        await health.start(settings.bind, settings.health_port)
        log.info("serving", api_server=kubernetes.host, control_plane=settings.server)
        await _until(stop, asyncio.create_task(election.run(lead)))
    finally:
        await health.stop()
        await mirror.close()
        await kubernetes.close()


async def _until(stop: asyncio.Event, running: asyncio.Task[None]) -> None:
    """Wait for `stop`, or for `running` to fail; then end it, and pass on why it failed."""
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((stopping, running), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not running.done():
        running.cancel()
        await asyncio.wait((running,), timeout=STOP_WITHIN_S)
        return
    running.result()


def _now() -> datetime:
    return datetime.now(UTC)
