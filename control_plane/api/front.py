"""The outermost layer (plain ASGI): HEAD as GET, headers that every answer carries, counts and times."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from control_plane.api.problems import problem

STOPPING: Final = "the control plane stops; repeat the request in a moment"
UNMATCHED: Final = "none"
_METHODS: Final = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"})


class Observer(Protocol):
    """Wants to know of each answer."""

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Take note of one answer. `route` is a path template, `method` one of a few."""


class Front:
    """ASGI middleware around everything."""

    def __init__(self, app: ASGIApp, *, observer: Observer, clock: Callable[[], float]) -> None:
        self._app = app
        self._observer = observer
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = self._clock()
        method = scope["method"]
        # The server leaves the body of an answer to HEAD away by itself.
        inner = {**scope, "method": "GET"} if method == "HEAD" else scope
        status, started = 500, False

        async def sending(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                started = True
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.setdefault("cache-control", "no-store")
                headers.setdefault("x-content-type-options", "nosniff")
            await send(message)

        try:
            await self._app(inner, receive, sending)
        except asyncio.CancelledError:
            # The server stops and waits no longer, mostly for a body that does not come: no defect.
            if started:
                raise
            await problem(503, STOPPING, headers={"connection": "close"})(inner, receive, sending)
        finally:
            route = getattr(inner.get("route"), "path_format", UNMATCHED)
            shown = method if method in _METHODS else "other"
            self._observer.answered(shown, route, status, self._clock() - began)
