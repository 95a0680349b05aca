"""The processor's server: the ext_proc service and health on one Unix socket, over a transport by choice."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

from structlog.typing import FilteringBoundLogger

from ext_proc.settings import Transport
from ext_proc.transport.health import Health
from ext_proc.transport.processor import METHOD, SERVICE, ExternalProcessor
from ext_proc.transport.stream import Services

# A whole request body of 32 MiB and its headers come in one message.
MAX_MESSAGE_BYTES: Final = 40 * 1024 * 1024


class Server(Protocol):
    """What a transport is to its owner."""

    async def start(self) -> None:
        """Listen. Raises OSError when the socket cannot be listened on."""
        ...

    async def stop(self, grace_s: float) -> None:
        """Open no more calls, give those that run `grace_s` seconds, then end."""
        ...


def make_server(
    transport: Transport, services: Services, socket: Path, max_message_bytes: int, log: FilteringBoundLogger
) -> Server:
    """Return a server of `services` on `socket`; it does not listen yet."""
    # Each is imported only when it is chosen.
    if transport is Transport.GRPCIO:
        from ext_proc.transport.grpcio import GrpcioServer  # noqa: PLC0415

        return GrpcioServer(services, socket, max_message_bytes, log)
    from ext_proc.transport.http2.server import Http2Server  # noqa: PLC0415

    return Http2Server(services, socket, max_message_bytes, log)


class ProcessorServer:
    """Serves one `ExternalProcessor` at `socket`. Healthy only once `serve` says so."""

    def __init__(
        self,
        processor: ExternalProcessor,
        socket: Path,
        log: FilteringBoundLogger,
        transport: Transport = Transport.HTTP2,
    ) -> None:
        self._health = Health(SERVICE)
        services = {METHOD: processor.process, **self._health.services()}
        self._server = make_server(transport, services, socket, MAX_MESSAGE_BYTES, log)

    async def start(self) -> None:
        """Listen, not yet healthy: Envoy sends nothing here until `serve`."""
        await self._server.start()

    def serve(self) -> None:
        """Say that this processor can decide."""
        self._health.set(True)

    async def stop(self, grace_s: float) -> None:
        """Refuse new streams, give running ones `grace_s` seconds, then end."""
        self._health.end()
        await self._server.stop(grace_s)
