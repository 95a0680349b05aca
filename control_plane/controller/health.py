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
        self._bounded: _Bounded | None = None

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
        server = self._runner.server
        if server is None:
            raise RuntimeError("a runner that is set up has a server")
        self._bounded = _Bounded(server, asyncio.get_running_loop(), self._max_age_s)
        self._listener = await asyncio.get_running_loop().create_server(self._bounded.make, host, port)

    @property
    def port(self) -> int:
        """The port it listens on, 0 while it does not."""
        return int(self._listener.sockets[0].getsockname()[1]) if self._listener is not None else 0

    async def stop(self) -> None:
        """Serve no more."""
        if self._listener is not None:
            self._listener.close()
        if self._bounded is not None:
            self._bounded.stop()
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


class _Bounded:
    """Makes what serves one more connection; too many make the oldest give way, not the newest."""

    def __init__(self, server: web.Server, loop: asyncio.AbstractEventLoop, max_age_s: float) -> None:
        self._server = server
        self._loop = loop
        self._max_age_s = max_age_s
        self._since: dict[asyncio.Protocol, float] = {}
        self._sweeping = loop.call_later(max_age_s / 4, self._sweep)

    def make(self) -> asyncio.Protocol:
        """Return it."""
        connections = self._server.connections
        for oldest in connections[: max(0, len(connections) - MAX_CONNECTIONS + 1)]:
            oldest.force_close()
        # Those that have ended are let go here, whatever the rate of new ones.
        self._since = {one: self._since[one] for one in connections if one in self._since}
        made: asyncio.Protocol = self._server()
        self._since[made] = self._loop.time()
        return made

    def stop(self) -> None:
        """Look at no ages any more."""
        self._sweeping.cancel()

    def _sweep(self) -> None:
        before = self._loop.time() - self._max_age_s
        for one in self._server.connections:
            if self._since.get(one, before) <= before:
                one.force_close()
        self._sweeping = self._loop.call_later(self._max_age_s / 4, self._sweep)
