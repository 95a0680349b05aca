"""The mirror's calls over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from control_plane.controller.mirror import PATH, Mirror, MirrorError
from control_plane.controller.resources import Key

Handler = Callable[[web.Request], Awaitable[web.Response]]
Start = Callable[[Handler], Awaitable[Mirror]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start a server that answers as it is told, and return the way to it."""
    servers: list[TestServer] = []
    mirrors: list[Mirror] = []

    async def one(handler: Handler) -> Mirror:
        app = web.Application()
        app.router.add_route("*", PATH, handler)
        servers.append(TestServer(app))
        await servers[-1].start_server()
        mirrors.append(Mirror(str(servers[-1].make_url("/")), "ork-token"))
        return mirrors[-1]

    yield one
    for mirror in mirrors:
        await mirror.close()
    for server in servers:
        await server.close()


async def test_what_is_wanted_goes_as_it_is_with_the_token(start: Start) -> None:
    """A PUT of JSON; the answer's verdicts come back."""
    seen: list[tuple[str, str, bytes]] = []

    async def take(request: web.Request) -> web.Response:
        seen.append((request.method, request.headers["Authorization"], await request.read()))
        item = {"kind": "Pin", "name": "a", "accepted": True, "reason": "Accepted"}
        return web.json_response({"revision": 3, "items": [item]})

    verdicts = await (await start(take)).tell(b'{"documents": []}')
    assert verdicts.revision == 3
    assert verdicts.of[Key("Pin", "a")].accepted
    assert seen == [("PUT", "Bearer ork-token", b'{"documents": []}')]


async def test_what_did_not_change_is_not_sent_again(start: Start) -> None:
    """With the tag of before; 304 gives the very same value."""
    tags: list[str | None] = []

    async def tell(request: web.Request) -> web.Response:
        tags.append(request.headers.get("If-None-Match"))
        if tags[-1] == '"7"':
            return web.Response(status=304)
        return web.json_response({"revision": 7, "items": []}, headers={"ETag": '"7"'})

    mirror = await start(tell)
    first = await mirror.standing()
    assert await mirror.standing() is first
    assert tags == [None, '"7"']


@pytest.mark.parametrize(
    ("status", "text", "reason", "said"),
    [
        (401, '{"title": "Unauthorized", "detail": "no valid token"}', "http401", "401: no valid token"),
        (503, "<html>", "http503", "answered 503"),
        (302, "", "http302", "answered 302"),
        (200, "<html>", "malformed", "no JSON"),
        (200, "{}", "malformed", "--server"),
    ],
)
async def test_every_refusal_has_a_reason(
    start: Start, status: int, text: str, reason: str, said: str
) -> None:
    """One word for counting, one sentence for people, and never the token."""

    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=status, text=text, headers={"Location": "http://127.0.0.1:1/"})

    mirror = await start(refuse)
    for call in (mirror.tell(b"{}"), mirror.standing()):
        with pytest.raises(MirrorError, match=said) as refused:
            await call
        assert refused.value.reason == reason
        assert "ork-token" not in str(refused.value)


async def test_a_server_that_is_not_there_is_told_as_such() -> None:
    """The sentence has no address in it that could hold a password."""
    mirror = Mirror("http://127.0.0.1:1", "ork-token")
    with pytest.raises(MirrorError, match="cannot be reached") as refused:
        await mirror.standing()
    assert refused.value.reason == "unreachable"
    await mirror.close()
