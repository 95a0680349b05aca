"""The socket: connections of the peer, counted, and an end in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from structlog.typing import FilteringBoundLogger

from ext_proc.transport.http2.calls import Serving
from ext_proc.transport.http2.connection import LINGER_S, Connection
from ext_proc.transport.stream import Services

# What closed connections and cancelled services get, beyond the grace.
LEAVE_S: Final = 2 * LINGER_S


class Http2Server:
    """Serves `services` on the Unix socket `socket`, in the running event loop.

    Args:
        services: by the method's path.
        socket: where to listen; what a killed predecessor left there is taken over.
        max_message_bytes: longer messages end their call with RESOURCE_EXHAUSTED.
        log: where broken calls and peers are told.
    """

    def __init__(
        self, services: Services, socket: Path, max_message_bytes: int, log: FilteringBoundLogger
    ) -> None:
        self._socket = socket
        self._changed = asyncio.Event()
        self._serving = Serving(services, max_message_bytes, log, self._changed.set)
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the socket cannot be listened on.
        """
        self._socket.unlink(missing_ok=True)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(
            lambda: Connection(self._serving, loop), str(self._socket), backlog=1024
        )

    async def stop(self, grace_s: float) -> None:
        """Open no more calls, give those that run `grace_s` seconds, then end."""
        serving = self._serving
        serving.stopping = True
        if self._server is not None:
            self._server.close()
            self._socket.unlink(missing_ok=True)
        for connection in list(serving.connections):
            connection.drain()
        await self._until(lambda: all(connection.idle for connection in serving.connections), grace_s)
        for connection in list(serving.connections):
            connection.close()
        await self._until(lambda: not serving.connections and not serving.leaving, LEAVE_S)

    async def _until(self, done: Callable[[], bool], seconds: float) -> None:
        """Wait until `done` or for `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while not done():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass
