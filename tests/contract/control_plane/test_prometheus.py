"""Queries, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

import pytest

from control_plane.prometheus import Prometheus, value_in
from control_plane.releases.asking import UnknownValueError


def found(kind: str, result: Any) -> bytes:
    """Return an answer as Prometheus gives it."""
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}).encode()


def vector(*values: str) -> bytes:
    """Return a vector of these values."""
    return found("vector", [{"metric": {}, "value": [1700000000.1, value]} for value in values])


@asynccontextmanager
async def server(answer: bytes, asked: list[bytes] | None = None) -> AsyncIterator[str]:
    """Run a server that gives each request `answer`, or is silent without one."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received = b""
        while b"\r\n\r\nquery" not in received:
            received += await reader.read(65536)
        if asked is not None:
            asked.append(received)
        writer.write(answer)
        await writer.drain()
        if not answer:
            await reader.read()
        writer.close()

    running = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{running.sockets[0].getsockname()[1]}/prefix"
    running.close()


def http(body: bytes, status: str = "200 OK") -> bytes:
    """Return an HTTP answer."""
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


async def test_a_query_is_asked_as_it_is() -> None:
    """Below whatever path the server has."""
    asked: list[bytes] = []
    query = 'sum(rate(x{a="b"}[5m])) / 2 > 0'
    async with server(http(vector("0.25")), asked) as url:
        assert await Prometheus(url).value(query) == 0.25
    head, _, body = asked[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /prefix/api/v1/query HTTP/1.1")
    assert parse_qs(body.decode()) == {"query": [query]}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "in time"),
        (b"nonsense\r\n\r\n", "does not speak HTTP"),
        (http(b"{}", "422 No"), "answered with 422"),
        (http(b" " * (1 << 20) + b"x"), "too much"),
    ],
)
async def test_no_answer_is_unknown(answer: bytes, reason: str) -> None:
    """And says why, without the query."""
    async with server(answer) as url:
        with pytest.raises(UnknownValueError, match=reason):
            await Prometheus(url, timeout_s=0.3).value("up")


async def test_nobody_there_is_unknown() -> None:
    """It cannot be reached."""
    with pytest.raises(UnknownValueError, match="cannot be reached"):
        await Prometheus("http://127.0.0.1:1").value("up")


@pytest.mark.parametrize(
    ("body", "value"), [(vector("1e-3"), 0.001), (found("scalar", [1700000000, "5"]), 5.0)]
)
def test_one_number_is_a_value(body: bytes, value: float) -> None:
    """Of a vector, or a scalar."""
    assert value_in(body) == value


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (vector(), "finds nothing"),
        (vector("1", "2"), "more than one"),
        (vector("NaN"), "no finite number"),
        (vector("+Inf"), "no finite number"),
        (found("string", [1700000000, "five"]), "no number"),
        (b"{}", "no number"),
        (b"[]", "no number"),
        (b"<html>", "no number"),
    ],
)
def test_anything_else_is_unknown(body: bytes, reason: str) -> None:
    """Nothing, several, and what is no number."""
    with pytest.raises(UnknownValueError, match=reason):
        value_in(body)
