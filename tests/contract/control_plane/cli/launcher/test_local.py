"""Calls to processes on this machine, over real sockets."""

import asyncio
import time

import pytest

from control_plane.cli.launcher.local import LocalAnswer, LocalCallError, call
from tests.harness.processes import free_ports

HOST = "127.0.0.1"


async def answered(answer: bytes, path: str = "/") -> tuple[bytes, LocalAnswer]:
    """Return what a server that says `answer` was asked on `path`, and what came of it."""
    asked = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.extend(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    async with server:
        found = await call("GET", f"http://{HOST}:{server.sockets[0].getsockname()[1]}{path}", 5)
    return bytes(asked), found


async def test_an_answer_is_its_status_and_its_body(monkeypatch: pytest.MonkeyPatch) -> None:
    """The query goes along; a proxy that the environment names is not asked."""
    monkeypatch.setenv("http_proxy", f"http://{HOST}:1")
    asked, found = await answered(b"HTTP/1.1 503 X\r\ncontent-length: 2\r\n\r\nno", "/stats?filter=a$")
    assert found == LocalAnswer(503, b"no")
    assert asked.startswith(b"GET /stats?filter=a$ HTTP/1.1\r\n")


async def test_what_is_no_http_is_an_error() -> None:
    """So is a server that closes without a word."""
    for words in (b"SSH-2.0-x\r\n", b"", b"HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\nno"):
        with pytest.raises(LocalCallError):
            await answered(words)


async def test_nobody_there_is_an_error() -> None:
    """At once."""
    with pytest.raises(LocalCallError, match="ConnectionRefusedError"):
        await call("GET", f"http://{HOST}:{free_ports(1)[0]}/", 5)


async def test_who_says_nothing_is_given_up() -> None:
    """After the time that was asked for."""
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await gone.wait()
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    began = time.monotonic()
    async with server:
        with pytest.raises(LocalCallError, match="TimeoutError"):
            await call("GET", f"http://{HOST}:{server.sockets[0].getsockname()[1]}/", 0.2)
        gone.set()
    assert time.monotonic() - began < 5
