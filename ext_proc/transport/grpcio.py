"""The services over grpcio's asyncio server: for a peer that is not Envoy, and to compare with.

Protocol: gRPC over HTTP/2. Nothing is known here of what is served.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import grpc
from structlog.typing import FilteringBoundLogger

from ext_proc.transport.stream import Abort, Service, Services

# With grpcio's defaults a burst of thousands of new streams is partly refused, and those fail open.
MAX_PENDING_STREAMS: Final = 1_000_000


def options(max_message_bytes: int) -> tuple[tuple[str, int], ...]:
    """Return the server's options."""
    return (
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
        ("grpc.max_concurrent_streams", 2**31 - 1),
        ("grpc.server.max_pending_requests", MAX_PENDING_STREAMS),
        ("grpc.server.max_pending_requests_hard_limit", MAX_PENDING_STREAMS),
        ("grpc.http2.max_pings_without_data", 0),
        # Envoy asks every half second whether this process still runs; that is no abuse.
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.so_reuseport", 0),
    )


class _ContextStream:
    """A `Stream` over grpcio's servicer context."""

    __slots__ = ("_context", "write")

    def __init__(self, context: Any) -> None:
        self._context = context
        self.write = context.write

    async def read(self) -> bytes | None:
        """Return the next message; None once the peer has sent its last."""
        message = await self._context.read()
        return None if message is grpc.aio.EOF else message


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
    """All methods, bytes in and bytes out."""

    def __init__(self, services: Services, log: FilteringBoundLogger) -> None:
        self._log = log
        self._handlers = {
            path: grpc.stream_stream_rpc_method_handler(self._behaviour(service))
            for path, service in services.items()
        }

    def service(self, handler_call_details: Any) -> Any:
        """Return the handler of a method; None when there is none."""
        return self._handlers.get(handler_call_details.method)

    def _behaviour(self, service: Service) -> Any:
        async def behave(_requests: object, context: Any) -> None:
            try:
                await service(_ContextStream(context))
            except Abort as abort:
                await context.abort(grpc.StatusCode(_code(abort.status)), abort.message)
            except Exception as error:
                self._log.error("a call failed", error=type(error).__name__, exc_info=True)
                await context.abort(grpc.StatusCode.INTERNAL, "the call failed; see the log")
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                # One of the service's own that came out: grpcio would leave the call open.
                await context.abort(grpc.StatusCode.INTERNAL, "the call was given up")

        return behave


def _code(status: int) -> tuple[int, str]:
    value: tuple[int, str] = next(code.value for code in grpc.StatusCode if code.value[0] == status)
    return value


class GrpcioServer:
    """Serves `services` on the Unix socket `socket`, in the running event loop.

    Args:
        services: by the method's path.
        socket: where to listen; what a killed predecessor left there is taken over.
        max_message_bytes: longer messages end their call with RESOURCE_EXHAUSTED.
        log: where broken calls are told.
    """

    def __init__(
        self, services: Services, socket: Path, max_message_bytes: int, log: FilteringBoundLogger
    ) -> None:
        self._socket = socket
        self._server = grpc.aio.server(options=options(max_message_bytes))
        self._server.add_generic_rpc_handlers((_Handlers(services, log),))

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the socket cannot be listened on.
        """
        self._socket.unlink(missing_ok=True)
        try:
            bound = self._server.add_insecure_port(f"unix:{self._socket}")
        except RuntimeError:
            bound = 0
        if not bound:
            raise OSError(f"cannot listen on {self._socket}")
        await self._server.start()

    async def stop(self, grace_s: float) -> None:
        """Open no more calls, give those that run `grace_s` seconds, then end."""
        await self._server.stop(grace_s)
        self._socket.unlink(missing_ok=True)
