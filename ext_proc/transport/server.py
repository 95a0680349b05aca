"""The processor's gRPC server: ext_proc and health on one Unix socket."""

from __future__ import annotations

from pathlib import Path

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from ext_proc.transport.processor import SERVICE, ExternalProcessor

# A whole request body of 32 MiB and its headers come in one message.
MAX_MESSAGE_BYTES = 40 * 1024 * 1024
# With grpcio's defaults a burst of thousands of new streams is partly refused, and those fail open.
MAX_PENDING_STREAMS = 1_000_000

OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_concurrent_streams", 2**31 - 1),
    ("grpc.server.max_pending_requests", MAX_PENDING_STREAMS),
    ("grpc.server.max_pending_requests_hard_limit", MAX_PENDING_STREAMS),
    ("grpc.http2.max_pings_without_data", 0),
    # Envoy asks every half second whether this process still runs; that is no abuse.
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.so_reuseport", 0),
)


class ProcessorServer:
    """Serves one `ExternalProcessor` at `socket`. Healthy only once `serve` says so."""

    def __init__(self, processor: ExternalProcessor, socket: Path) -> None:
        self._server = grpc.aio.server(options=OPTIONS)
        self._health = health.aio.HealthServicer()
        self._server.add_generic_rpc_handlers((processor.handler(),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._socket = socket

    async def start(self) -> None:
        """Listen, not yet healthy: Envoy sends nothing here until `serve`."""
        self._socket.unlink(missing_ok=True)
        await self._health.set("", health_pb2.HealthCheckResponse.NOT_SERVING)
        if not self._server.add_insecure_port(f"unix:{self._socket}"):
            raise OSError(f"cannot listen on {self._socket}")
        await self._server.start()

    async def serve(self) -> None:
        """Say that this processor can decide."""
        for service in ("", SERVICE):
            await self._health.set(service, health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, grace_s: float) -> None:
        """Refuse new streams, give running ones `grace_s` seconds, then end."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_s)
        self._socket.unlink(missing_ok=True)
