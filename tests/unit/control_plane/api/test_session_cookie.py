"""The cookie of a logged-in browser."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import Request
from starlette.responses import Response
from starlette.types import Message, Scope

from control_plane.api.session_cookie import COOKIE, keep_cookie, plain_loopback, renewing


def scope(host: str, scheme: str = "http") -> Scope:
    """Return a request's scope."""
    headers = [(b"host", host.encode())]
    found: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "scheme": scheme}
    return {**found, "headers": headers, "query_string": b"", "server": ("127.0.0.1", 80)}


@pytest.mark.parametrize(
    ("host", "scheme", "plain"),
    [
        *(("localhost:8080", "http", True), ("127.0.0.1", "http", True), ("[::1]:8080", "http", True)),
        *(
            ("example.com", "http", False),
            ("127.0.0.1", "https", False),
            ("", "http", False),
            ("[", "http", False),
        ),
    ],
)
def test_only_on_this_machine_it_may_go_without_https(host: str, scheme: str, plain: bool) -> None:
    """Everywhere else the browser sends it over HTTPS only."""
    request, answer = Request(scope(host, scheme)), Response()
    assert plain_loopback(request) == plain
    keep_cookie(answer, request, "c")
    kept = answer.headers["set-cookie"].lower()
    assert ("secure" in kept) != plain
    assert "httponly" in kept and "samesite=strict" in kept


async def test_a_renewed_one_goes_with_the_answer() -> None:
    """Unless that says something else of the cookie, as logging out does."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    sending = renewing(send, scope("localhost"), "new")
    await sending({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
    await sending({"type": "http.response.body", "body": b""})
    await sending({"type": "http.response.start", "status": 303, "headers": [(b"set-cookie", b"x=")]})
    names = [[name for name, _ in message.get("headers", ())] for message in sent]
    assert names == [[b"a", b"set-cookie"], [], [b"set-cookie"]]
    assert dict(sent[0]["headers"])[b"set-cookie"].startswith(f"{COOKIE}=new".encode())
