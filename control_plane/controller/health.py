"""The controller's own port: `/healthz`, `/readyz`, `/metrics`, for the kubelet and Prometheus.

It stands on the pod's address without a token, so whoever reaches it may open connections and say nothing:
they are few and short-lived, and a new one is always heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

HEARD_WITHIN_S: Final = 60.0
MAX_CONNECTIONS: Final = 64
MAX_AGE_S: Final = 60.0


class Health:
    """Ready is who has heard of the API server lately: a leader, and one that waits to lead.

    Args:
        clock: monotonic seconds.
        metrics: the text of the metrics.
        max_age_s: of a connection; whoever asks again opens another.
    """

    def __init__(
        self, clock: Callable[[], float], metrics: Callable[[], bytes], max_age_s: float = MAX_AGE_S
    ) -> None:
        self._clock = clock
        self._metrics = metrics
        self._max_age_s = max_age_s
        self._heard_at: float | None = None
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None

    def __repr__(self) -> str:
        return f"<Health {'ready' if self.is_ready else 'not ready'}>"

    @property
    def is_ready(self) -> bool:
        """Whether the API server was heard of lately."""
        return self._heard_at is not None and self._clock() - self._heard_at < HEARD_WITHIN_S

    def heard(self) -> None:
        """Take note that the API server answered."""
        self._heard_at = self._clock()

    def application(self) -> web.Application:
        """Return what serves the three paths."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics_text)
        return app

    async def start(self, host: str, port: int) -> None:
        """Serve.

        Raises:
            OSError: the address cannot be listened on.
        """
        self._runner = web.AppRunner(self.application(), access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        if (server := self._runner.server) is not None:
            loop = asyncio.get_running_loop()
            self._listener = await loop.create_server(
                lambda: _bounded(server, loop, self._max_age_s), host, port
            )

    @property
    def port(self) -> int:
        """The port it listens on, 0 while it does not."""
        return int(self._listener.sockets[0].getsockname()[1]) if self._listener is not None else 0

    async def stop(self) -> None:
        """Serve no more."""
        if self._listener is not None:
            self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        if self.is_ready:
            return web.Response(text="ok\n")
        return web.Response(status=503, text="the API server does not answer\n")

    async def _metrics_text(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics(), headers={"Content-Type": CONTENT_TYPE_LATEST})


def _bounded(server: web.Server, loop: asyncio.AbstractEventLoop, max_age_s: float) -> asyncio.Protocol:
    """Return what serves one more connection; too many make the oldest give way, not the newest."""
    connections = server.connections
    for oldest in connections[: max(0, len(connections) - MAX_CONNECTIONS + 1)]:
        oldest.force_close()
    made = server()
    loop.call_later(max_age_s, made.force_close)
    return made
