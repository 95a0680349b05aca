"""gRPC's health protocol, by which Envoy knows whether this processor can decide.

Protocol: https://github.com/grpc/grpc/blob/master/doc/health-checking.md.
"""

from __future__ import annotations

import asyncio
from typing import Final

from google.protobuf.message import DecodeError
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from ext_proc.transport.stream import Abort, Services, Status, Stream

SERVICE: Final = "grpc.health.v1.Health"


class Health:
    """Says of the names in `known`, and of the server as a whole (""), whether they serve: all or none."""

    def __init__(self, *known: str) -> None:
        self._known = frozenset(("", *known))
        self._serving = False
        self._ended = False
        self._changed = asyncio.Event()

    def set(self, serving: bool) -> None:
        """Say from now on whether everything serves."""
        self._serving = serving
        self._changed.set()
        self._changed = asyncio.Event()

    def end(self) -> None:
        """Say that nothing serves any more, and end every watch: a server that stops waits for its calls."""
        self._ended = True
        self.set(False)

    def services(self) -> Services:
        """Return the protocol's methods."""
        return {f"/{SERVICE}/Check": self._check, f"/{SERVICE}/Watch": self._watch}

    async def _check(self, stream: Stream) -> None:
        if await self._asked(stream) not in self._known:
            raise Abort(Status.NOT_FOUND, "unknown service")
        await stream.write(self._answer())

    async def _watch(self, stream: Stream) -> None:
        known = await self._asked(stream) in self._known
        while True:
            changed, last = self._changed, self._ended
            await stream.write(self._answer() if known else _UNKNOWN)
            if last:
                return
            await changed.wait()

    async def _asked(self, stream: Stream) -> str:
        message = await stream.read()
        try:
            service: str = HealthCheckRequest.FromString(message or b"").service
        except DecodeError:
            raise Abort(Status.INTERNAL, "this is no health check") from None
        return service

    def _answer(self) -> bytes:
        return _SERVING if self._serving else _NOT_SERVING


def _message(status: int) -> bytes:
    serialised: bytes = HealthCheckResponse(status=status).SerializeToString()
    return serialised


_SERVING: Final = _message(HealthCheckResponse.SERVING)
_NOT_SERVING: Final = _message(HealthCheckResponse.NOT_SERVING)
_UNKNOWN: Final = _message(HealthCheckResponse.SERVICE_UNKNOWN)
