"""The way to a proxy: over a real connection, to one that answers, one that breaks off and none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from control_plane.api.playground import ProxyUnreachableError
from control_plane.playground import HttpProxy, origin_of

ANSWER = b"HTTP/1.1 201 Created\r\nX-Outrigger-Cache: hit\r\ncontent-length: 5\r\n\r\nhello"
HALF = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe"


@asynccontextmanager
async def listening(answer: bytes, seen: Callable[[bytes], object]) -> AsyncIterator[str]:
    """Answer one request with `answer`, then close; yield the URL."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen(await reader.read(65536))
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_an_answer_comes_as_it_is() -> None:
    """Status, headers by lower-case name, and the body in pieces; asked is the path of completions."""
    seen: list[bytes] = []
    gold = [("x-outrigger-tier", "gold")]
    async with listening(ANSWER, seen.append) as url, HttpProxy(url).ask(gold, b"{}") as answered:
        body = b"".join([piece async for piece in answered.body])
    assert (answered.status, body) == (201, b"hello")
    assert ("x-outrigger-cache", "hit") in answered.headers
    assert seen[0].startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert b"x-outrigger-tier: gold" in seen[0]


@pytest.mark.parametrize(("answer", "reason"), [(HALF, "broke off"), (b"", "broke off"), (b"?", "broke off")])
async def test_one_that_breaks_off_is_told(answer: bytes, reason: str) -> None:
    """Before its head, in the middle of its body, or with what is no HTTP."""
    async with listening(answer, len) as url:
        with pytest.raises(ProxyUnreachableError, match=reason):
            async with HttpProxy(url).ask([], b"{}") as answered:
                assert [piece async for piece in answered.body]


async def test_one_that_is_not_there_is_told() -> None:
    """Nobody listens."""
    async with listening(ANSWER, len) as url:
        pass
    with pytest.raises(ProxyUnreachableError, match="cannot be reached"):
        async with HttpProxy(url).ask([], b"{}"):
            pass


@pytest.mark.parametrize(
    "url", ["http://h:1", "https://h", "http://h:1/", "http://h:1/v1", "http://[::1]:1/v1/"]
)
def test_an_origin_is_scheme_host_and_port(url: str) -> None:
    """Whichever form of it an application would be given."""
    assert origin_of(url) == url.rstrip("/").removesuffix("/v1")


@pytest.mark.parametrize(
    "url", ["", "h:1", "ftp://h", "http://", "http://u:pw@h", "http://h/x", "http://h?q=pw"]
)
def test_other_urls_are_refused_and_not_repeated(url: str) -> None:
    """They may hold a password."""
    with pytest.raises(ValueError, match="must be") as refused:
        origin_of(url)
    assert "pw" not in str(refused.value)
