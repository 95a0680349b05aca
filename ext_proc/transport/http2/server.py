"""The socket: connections of the peer, counted, and an end in order."""

from __future__ import annotations

import asyncio
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from ext_proc.transport.http2.connection import Connection, Serving
from ext_proc.transport.stream import Services


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
        self._serving = Serving(services, max_message_bytes, log, set(), self._changed.set)
        self._server: asyncio.Server | None = None

    @property
    def calls(self) -> int:
        """How many calls run."""
        return sum(len(connection.calls) for connection in self._serving.connections)

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
        if self._server is not None:
            self._server.close()
        for connection in list(self._serving.connections):
            connection.shut()
        try:
            async with asyncio.timeout(grace_s):
                while self.calls:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass
        for connection in list(self._serving.connections):
            connection.close()
        self._socket.unlink(missing_ok=True)
