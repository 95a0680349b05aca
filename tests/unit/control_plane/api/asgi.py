"""Requests without a server: an application called once, and what it answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Scope


def scope_of(path: str = "/", method: str = "GET", headers: Mapping[str, str] | None = None) -> Scope:
    """Return an HTTP scope."""
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in (headers or {}).items()]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": raw,
        "client": ("10.0.0.7", 5),
        "server": ("127.0.0.1", 80),
    }


async def call(app: ASGIApp, scope: Scope) -> list[Message]:
    """Return every message that `app` sends."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent


def headers_of(messages: list[Message]) -> dict[str, Any]:
    """Return the headers of the answer."""
    return {name.decode(): value.decode() for name, value in messages[0]["headers"]}
