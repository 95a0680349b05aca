"""Scripted faults, seen from the other end of a real socket."""

from __future__ import annotations

import asyncio
import base64
import time
from typing import Any

import httpx
import pytest

from control_plane.tools.provider import Behaviour
from tests.contract.control_plane.tools.provider.servers import CHAT, WIRES, exchanged, raw, served

PATH = "/v1/chat/completions"
POST = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}"


@pytest.mark.parametrize("wire", WIRES)
async def test_429_then_200(wire: str) -> None:
    """A scripted refusal is sent as written; the next request is answered by the model."""
    async with served(wire) as (provider, http):
        script = [{"status": 429, "headers": {"retry-after": "1"}, "body": {"error": {"code": "slow_down"}}}]
        assert (await http.post("/_provider/script", json=script)).json() == {"waiting": 1}
        refused, answered = [await http.post(PATH, json=CHAT) for _ in range(2)]
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json() == {"error": {"code": "slow_down"}}
        assert answered.status_code == 200
        assert [seen.scripted for seen in provider.observations.log] == [True, False]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"close": "before-headers"}, id="before-headers"),
        pytest.param(
            {"close": "mid-stream", "chunks": ["data: 1\n\n"], "chunk_delay_ms": 20}, id="mid-stream"
        ),
        pytest.param({"close": "reset"}, id="reset"),
        pytest.param(
            {"close": "reset", "chunks": ["data: 1\n\n"], "chunk_delay_ms": 20}, id="reset-after-chunk"
        ),
    ],
)
async def test_broken_off(wire: str, given: dict[str, Any]) -> None:
    """However it is broken off, the caller sees a broken answer, it counts as aborted, service goes on."""
    async with served(wire) as (provider, http):
        provider.script(Behaviour(**given))
        got = b""
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            async with http.stream("POST", PATH, json=CHAT) as answer:
                async for piece in answer.aiter_raw():
                    got += piece
        assert got == b"".join(chunk.encode() for chunk in given.get("chunks", ()))
        assert provider.observations.aborted == 1
        assert (await http.post(PATH, json=CHAT)).status_code == 200


async def test_a_reset_is_a_tcp_reset() -> None:
    """`reset` sends RST, which is another error for the caller than a closed connection."""
    async with served("http1") as (provider, _):
        provider.script(Behaviour(close="reset"))
        with pytest.raises(ConnectionResetError):
            await exchanged(provider, POST)
        provider.script(Behaviour(close="before-headers"))
        assert await exchanged(provider, POST) == b""


@pytest.mark.parametrize("wire", ["http1", "h2c"])
async def test_chunks_are_kept_apart(wire: str) -> None:
    """Chunks arrive as they are cut, at their times, even inside of a character."""
    cut = [base64.b64encode(part).decode() for part in (b"data: \xe4", b"\xbd\xa0\n", b"\n")]
    async with served(wire) as (provider, http):
        provider.script(Behaviour(chunks_base64=tuple(cut), chunk_delay_ms=30))
        async with http.stream("POST", PATH, json=CHAT) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            pieces = [piece async for piece in answer.aiter_raw()]
    assert pieces == [b"data: \xe4", b"\xbd\xa0\n", b"\n"]


@pytest.mark.parametrize("wire", ["http1", "h2c"])
async def test_gzip(wire: str) -> None:
    """A coded answer is decoded by the caller."""
    async with served(wire) as (provider, http):
        provider.script(Behaviour(status=500, body={"error": None}, gzip=True))
        answer = await http.post(PATH, json=CHAT)
        assert (answer.status_code, answer.headers["content-encoding"]) == (500, "gzip")
        assert answer.json() == {"error": None}


async def test_trailers_on_http1() -> None:
    """Trailers follow the last chunk."""
    async with served("http1") as (provider, _):
        provider.script(Behaviour(body="{}", trailers=(("x-checksum", "7"),)))
        assert (await exchanged(provider, POST)).endswith(b"\r\n0\r\nx-checksum: 7\r\n\r\n")


async def test_trailers_on_http2() -> None:
    """Trailers end the stream, and the answer is whole."""
    async with served("h2c") as (provider, http):
        provider.script(Behaviour(body="{}", trailers=(("x-checksum", "7"),)))
        assert (await http.post(PATH, json=CHAT)).text == "{}"


async def test_repeated_and_oddly_cased_headers() -> None:
    """Repeated headers keep number, order and case."""
    async with served("http1") as (provider, _):
        provider.script(Behaviour(headers=(("SET-cookie", "a=1"), ("Set-Cookie", "b=é")), body="{}"))
        head = (await exchanged(provider, POST)).partition(b"\r\n\r\n")[0].split(b"\r\n")
        assert [line for line in head if b"ookie" in line] == [b"SET-cookie: a=1", "Set-Cookie: b=é".encode()]


@pytest.mark.parametrize("length", ["1", "100"])
async def test_a_wrong_content_length(length: str) -> None:
    """A length that is not the body's is sent as scripted, and the connection closed behind it."""
    async with served("http1") as (provider, _):
        provider.script(Behaviour(headers=(("content-length", length),), body="{}"))
        answer = await exchanged(provider, POST.replace(b"connection: close\r\n", b""))
        assert f"content-length: {length}\r\n".encode() in answer
        assert answer.endswith(b"\r\n\r\n{}")


async def test_raw_bytes() -> None:
    """A raw answer is written as it is, however wrong, and the connection closed."""
    wrong = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort"
    async with served("http1") as (provider, _):
        provider.script(Behaviour(raw_base64=base64.b64encode(wrong).decode()))
        assert await exchanged(provider, POST) == wrong
        assert provider.observations.log[0].status == 200


async def test_raw_bytes_have_no_meaning_on_http2() -> None:
    """On HTTP/2 a raw answer resets the stream."""
    async with served("h2c") as (provider, http):
        provider.script(Behaviour(raw_base64="eA=="))
        with pytest.raises(httpx.RemoteProtocolError):
            await http.post(PATH, json=CHAT)


async def test_delay_and_generate() -> None:
    """`generate` lets the model answer, later and with more headers."""
    async with served("http1") as (provider, http):
        provider.script(Behaviour(generate=True, delay_ms=50, headers=(("x-more", "1"),)))
        before = time.monotonic()
        answer = await http.post(PATH, json=CHAT)
        assert time.monotonic() - before >= 0.05
        assert (answer.json()["object"], answer.headers["x-more"]) == ("chat.completion", "1")


async def test_hang() -> None:
    """A provider that hangs sends nothing until the caller leaves."""
    async with served("http1") as (provider, _), asyncio.timeout(5):
        provider.script(Behaviour(hang=True))
        async with raw(provider) as (_, writer):
            writer.write(POST)
            await provider.observations.until(lambda seen: seen.in_flight == 1)
        await provider.observations.until(lambda seen: seen.aborted == 1)
        assert provider.observations.log[0].status == 0


@pytest.mark.parametrize("wire", ["http1", "h2c"])
async def test_empty_event_stream(wire: str) -> None:
    """200 text/event-stream with content-length 0 can be scripted."""
    async with served(wire) as (provider, http):
        provider.script(Behaviour(headers=(("content-type", "text/event-stream"),), body=""))
        answer = await http.post(PATH, json=CHAT)
        assert (answer.status_code, answer.headers["content-length"], answer.content) == (200, "0", b"")
