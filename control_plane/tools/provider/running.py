"""Starting and stopping a provider in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from control_plane.tools.provider.application import Application
from control_plane.tools.provider.observations import Observations
from control_plane.tools.provider.script import Behaviour, Script
from control_plane.tools.provider.settings import ProviderSettings
from control_plane.tools.provider.timing import Clock, SystemClock
from control_plane.tools.provider.wire.server import Server, tls_context


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider that runs. `url` is the base URL for clients, `origin` the same without the base path."""

    url: str
    origin: str
    port: int
    observations: Observations
    _script: Script

    def script(self, *behaviours: Behaviour) -> None:
        """Let the next requests get these behaviours, behind those that wait."""
        self._script.add(list(behaviours))

    def reset(self) -> None:
        """Forget what was observed, and the script."""
        self.observations.reset()
        self._script.clear()


@asynccontextmanager
async def running_provider(
    settings: ProviderSettings, *, clock: Clock | None = None
) -> AsyncIterator[Provider]:
    """Run a provider in this event loop; `settings.port` 0 takes a free port.

    Raises:
        CannotListen: the port is in use, or the TLS files cannot be read.
    """
    clock = clock or SystemClock()
    observations = Observations(clock, settings.log_size, settings.log_body_bytes)
    script = Script()
    tls = (
        tls_context(settings.tls_cert, settings.tls_key)
        if settings.tls_cert is not None and settings.tls_key is not None
        else None
    )
    # TCP's own handshake is one round trip; the kernel has answered it long before we accept.
    cost_ms = settings.tls_handshake_ms + settings.rtt_ms
    server = Server(
        Application(settings, observations, script, clock),
        observations,
        clock,
        tls=tls,
        connection_cost_s=cost_ms / 1000,
        max_body_bytes=settings.max_body_bytes,
        max_streams=settings.max_concurrent_streams,
    )
    port = await server.start(settings.host, settings.port)
    try:
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        origin = f"{'https' if tls else 'http'}://{host}:{port}"
        yield Provider(origin + settings.base_path, origin, port, observations, script)
    finally:
        await server.stop()
