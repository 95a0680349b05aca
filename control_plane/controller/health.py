"""The controller's own port: `/healthz`, `/readyz`, `/metrics`, for the kubelet and Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

HEARD_WITHIN_S: Final = 60.0


class Health:
    """Ready is who has heard of the API server lately: a leader, and one that waits to lead.

    Args:
        clock: monotonic seconds.
        metrics: the text of the metrics.
    """

    def __init__(self, clock: Callable[[], float], metrics: Callable[[], bytes]) -> None:
        self._clock = clock
        self._metrics = metrics
        self._heard_at: float | None = None
        self._runner: web.AppRunner | None = None

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
        await web.TCPSite(self._runner, host, port).start()

    async def stop(self) -> None:
        """Serve no more."""
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
