"""The cookie of a logged-in browser: read from a request, written onto an answer."""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request, cookie_parser
from starlette.responses import Response
from starlette.types import Message, Scope, Send

COOKIE: Final = "outrigger_session"


def session_cookie(headers: Headers) -> str | None:
    """Return the session's cookie of a request, if it has one."""
    return cookie_parser(headers.get("cookie", "")).get(COOKIE)


def keep_cookie(answer: Response, request: Request, cookie: str) -> None:
    """Let the browser keep `cookie`: out of scripts' sight, for this site, over HTTPS or on this machine."""
    secure = not plain_loopback(request)
    answer.set_cookie(COOKIE, cookie, secure=secure, httponly=True, samesite="strict")


def renewing(send: Send, scope: Scope, cookie: str) -> Send:
    """Return `send` that has the browser keep `cookie` with the answer, unless that sets another."""
    bearer = Response()
    keep_cookie(bearer, Request(scope), cookie)
    kept = (b"set-cookie", bearer.headers["set-cookie"].encode("latin-1"))

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            if all(name != b"set-cookie" for name, _ in headers):
                message = {**message, "headers": [*headers, kept]}
        await send(message)

    return sending


def plain_loopback(request: Request) -> bool:
    """Say whether the request came by plain HTTP to this machine itself, where that is safe."""
    if request.url.scheme != "http":
        return False
    try:
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
