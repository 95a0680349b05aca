"""HTTP/1.0 and 1.1 as callers really speak it, byte by byte."""

from __future__ import annotations

import asyncio

import pytest

from tests.contract.control_plane.tools.provider.servers import exchanged, raw, served

BODY = b'{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":2}'
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"
LENGTH = f"content-length: {len(BODY)}\r\n".encode()


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(HEAD + b"connection: close\r\n" + LENGTH + b"\r\n" + BODY, id="length"),
        pytest.param(
            HEAD
            + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
            + b"%x\r\n%s\r\n0\r\nx-trailer: 1\r\n\r\n" % (len(BODY), BODY),
            id="chunked-with-trailer",
        ),
        pytest.param(
            b"POST http://elsewhere/v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
            + LENGTH
            + b"\r\n"
            + BODY,
            id="absolute-form",
        ),
        pytest.param(b"POST /v1/chat/completions HTTP/1.0\r\n" + LENGTH + b"\r\n" + BODY, id="http-1.0"),
    ],
)
async def test_forms_of_a_request(request_bytes: bytes) -> None:
    """Every well-formed way to send a request is answered."""
    async with served("http1") as (provider, _):
        assert (await exchanged(provider, request_bytes)).startswith(b"HTTP/1.1 200 OK\r\n")


async def test_a_stream_to_http_1_0_ends_with_the_connection() -> None:
    """HTTP/1.0 knows no chunks."""
    async with served("http1") as (provider, _):
        body = BODY[:-1] + b',"stream":true}'
        head = f"POST /v1/chat/completions HTTP/1.0\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        answer = await exchanged(provider, head + body)
        assert b"transfer-encoding" not in answer.lower()
        assert answer.endswith(b"data: [DONE]\n\n")


async def test_pipelined_requests_are_answered_in_order() -> None:
    """Two requests sent at once get two answers on the one connection."""
    async with served("http1") as (provider, _):
        one = HEAD + LENGTH + b"\r\n" + BODY
        two = b"GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        answer = await exchanged(provider, one + two)
        assert answer.count(b"HTTP/1.1 200 OK") == 2
        assert answer.index(b"chat.completion") < answer.index(b'"object":"list"')
        assert provider.observations.opened == 1


async def test_expect_continue() -> None:
    """100 Continue comes before the body is sent."""
    async with served("http1") as (provider, _), asyncio.timeout(5), raw(provider) as (reader, writer):
        writer.write(HEAD + LENGTH + b"expect: 100-continue\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 100")
        await reader.readline()
        writer.write(BODY)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")


async def test_head_has_no_body() -> None:
    """HEAD gets the headers of GET alone, and the connection stays in step."""
    async with served("http1") as (provider, _):
        head = b"HEAD /v1/models HTTP/1.1\r\nhost: x\r\n\r\n"
        last = b"GET /v1/models/m HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        answer = await exchanged(provider, head + last)
        first, _, rest = answer.partition(b"\r\n\r\n")
        assert b"content-length: " in first
        assert rest.startswith(b"HTTP/1.1 200 OK")


async def test_upgrade_is_declined() -> None:
    """An upgrade that is not offered is ignored, and the request answered."""
    async with served("http1") as (provider, _):
        upgrade = b"connection: Upgrade, close\r\nupgrade: websocket\r\n"
        answer = await exchanged(provider, HEAD + upgrade + LENGTH + b"\r\n" + BODY)
        assert answer.startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(b"nonsense\r\n\r\n", id="no-http"),
        pytest.param(HEAD + b"content-length: -1\r\n\r\n", id="negative-length"),
        pytest.param(HEAD + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}", id="two-lengths"),
        pytest.param(HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n", id="bad-chunk"),
        pytest.param(HEAD + b"bad header: 1\r\n\r\n", id="bad-header"),
    ],
)
async def test_bad_http(request_bytes: bytes) -> None:
    """What is no HTTP gets a 400 and the connection is closed; nothing is counted as a request."""
    async with served("http1") as (provider, _):
        assert (await exchanged(provider, request_bytes)).startswith(b"HTTP/1.1 400 ")
        assert provider.observations.requests == {}


async def test_too_large_a_body() -> None:
    """A body beyond the limit is refused with 413."""
    async with served("http1", max_body_bytes=10) as (provider, _):
        assert (await exchanged(provider, HEAD + LENGTH + b"\r\n" + BODY)).startswith(b"HTTP/1.1 413 ")


async def test_a_slow_reader_holds_the_stream_back() -> None:
    """A caller that does not read stops the generation instead of filling memory."""
    async with served("http1", output_tokens=100_000, output_spread=0) as (provider, _):
        body = BODY.replace(b',"max_tokens":2', b',"stream":true,"temperature":0')
        async with asyncio.timeout(20), raw(provider) as (reader, writer):
            writer.write(HEAD + f"content-length: {len(body)}\r\n\r\n".encode() + body)
            await reader.readline()
            await provider.observations.until(lambda seen: seen.in_flight == 1)
            while not (await reader.read(1 << 20)).endswith(b"0\r\n\r\n"):
                pass
            await provider.observations.until(lambda seen: seen.in_flight == 0)
        assert provider.observations.aborted == 0
