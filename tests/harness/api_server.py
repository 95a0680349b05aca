"""An API server as its clients see it: HTTP on loopback, objects in memory, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, Self

import yaml
from aiohttp import web

from control_plane.kubernetes_client import KubernetesError
from tests.unit.control_plane.webhook.cluster import Cluster

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


class ApiServer:
    """Serves `cluster`, and says of the tokens in `tokens` which TokenReview status they have."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.tokens: dict[str, dict[str, Any]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._runner: web.AppRunner | None = None
        self.url = ""

    def kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig for it."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
        path.write_text(yaml.safe_dump(document))
        return path

    def __enter__(self) -> Self:
        self._thread.start()
        self.url = asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._runner is not None
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _serve(self) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    async def _answer(self, request: web.Request) -> web.Response:
        body: Any = await request.json() if request.can_read_body else None
        if request.path == REVIEWS:
            status = self.tokens.get(body["spec"]["token"], {"authenticated": False})
            return web.json_response({"status": status}, status=201)
        try:
            found = await self.cluster.call(
                request.method, request.path, body=body, query=list(request.query.items())
            )
        except KubernetesError as error:
            told = {"kind": "Status", "reason": error.reason, "message": str(error)}
            return web.json_response(told, status=error.status or 503)
        return web.json_response(found)
