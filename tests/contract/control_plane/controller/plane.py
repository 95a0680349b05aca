"""A control plane that takes every document, over real HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from control_plane.controller.mirror import PATH

TOKEN = "ork-token"


class Plane:
    """Answers the mirror's calls; `documents` is what it was told last."""

    def __init__(self) -> None:
        self.documents: list[dict[str, Any]] = []
        self.revision = 0
        app = web.Application(client_max_size=1 << 26)
        app.router.add_put(PATH, self._tell)
        app.router.add_get(PATH, self._ask)
        self.server = TestServer(app)

    @property
    def names(self) -> set[str]:
        """The names of what it was told."""
        return {document["metadata"]["name"] for document in self.documents}

    async def _tell(self, request: web.Request) -> web.Response:
        if request.headers["Authorization"] != f"Bearer {TOKEN}":
            return web.json_response({"detail": "no valid token"}, status=401)
        self.documents = (await request.json())["documents"]
        self.revision += 1
        items = [
            {**self._key(document), "accepted": True, "reason": "Accepted"} for document in self.documents
        ]
        return web.json_response({"revision": self.revision, "items": items})

    async def _ask(self, request: web.Request) -> web.Response:
        tag = f'"{self.revision}"'
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304)
        sidecars = {"current": 1, "total": 1}
        items = [
            {**self._key(document), "programmed": True, "sidecars": sidecars} for document in self.documents
        ]
        return web.json_response({"revision": self.revision, "items": items}, headers={"ETag": tag})

    @staticmethod
    def _key(document: dict[str, Any]) -> dict[str, str]:
        return {"kind": document["kind"], "name": document["metadata"]["name"]}


async def eventually(condition: Any, within_s: float = 60.0) -> None:
    """Return as soon as `condition` holds."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.02)
