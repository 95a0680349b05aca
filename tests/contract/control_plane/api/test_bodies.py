"""Large, endless, coded and hostile bodies over real HTTP."""

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.contract.control_plane.api.papers import backend
from tests.contract.control_plane.api.served import ADMIN, Served

YAML = {"content-type": "application/yaml"}
MIB = 1024 * 1024


def bomb(levels: int = 9) -> str:
    """Return a few hundred bytes that stand for a billion values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        bomb(),
        "a: &a [*a]",
        "[" * 10_000,
        "!!python/object/apply:os.system ['true']",
        "{" * 200,
        "? " * 5_000,
        "a: !!int x",
        "&a a: *b",
    ],
)
async def test_hostile_yaml_is_refused_quickly(visitor: httpx.AsyncClient, text: str) -> None:
    """400 within a second or two, and the API goes on."""
    began = time.monotonic()
    answer = await visitor.post("/api/v1/apply", content=text, headers=YAML)
    assert answer.status_code == 400, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert time.monotonic() - began < 5
    assert (await visitor.get("/healthz")).status_code == 200


async def test_ten_megabytes_are_read_without_holding_up_others(
    served: Served, admin: httpx.AsyncClient
) -> None:
    """They are refused for what they are; meanwhile health is answered."""
    text = json.dumps([backend("b", url="https://x.example/" + "x" * (10 * MIB))])
    posting = asyncio.create_task(
        admin.post("/api/v1/apply", content=text, headers={"content-type": "application/json"})
    )
    slowest = 0.0
    async with served.client(None) as other:
        while not posting.done():
            began = time.monotonic()
            assert (await other.get("/healthz")).status_code == 200
            slowest = max(slowest, time.monotonic() - began)
    answer = await posting
    assert answer.status_code == 422
    assert len(answer.content) < 2_000
    assert slowest < 2


async def test_more_than_sixteen_megabytes_are_not_read(served: Served) -> None:
    """413, by the announced length before a byte of it, or as soon as the bound is passed."""
    host, port = served.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        f"POST /api/v1/apply HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN}\r\n"
        f"content-type: application/json\r\ncontent-length: {17 * MIB}\r\n\r\n".encode()
    )
    assert b" 413 " in await asyncio.wait_for(reader.readline(), 5)
    writer.close()

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(1_000):
            yield b" " * MIB

    async with served.client() as client:
        try:
            answer = await client.post(
                "/api/v1/apply", content=endless(), headers={"content-type": "application/json"}
            )
        except (httpx.WriteError, httpx.ReadError):
            return  # the server closed the connection while more was coming, which is right too
        assert answer.status_code == 413


@pytest.mark.parametrize("path", ["/api/v1/tokens", "/api/v1/consumers/x/keys"])
async def test_small_bodies_have_a_small_bound(visitor: httpx.AsyncClient, path: str) -> None:
    """What is no set of documents is 1 MiB at most."""
    body = json.dumps({"name": "x" * 2 * MIB})
    try:
        answer = await visitor.post(path, content=body, headers={"content-type": "application/json"})
    except (httpx.WriteError, httpx.ReadError):
        return
    assert answer.status_code == 413


async def test_a_coded_body_is_refused(visitor: httpx.AsyncClient) -> None:
    """415, so that no bomb is unpacked."""
    content = gzip.compress(b" " * 10 * MIB)
    answer = await visitor.post(
        "/api/v1/apply",
        content=content,
        headers={"content-type": "application/json", "content-encoding": "gzip"},
    )
    assert (answer.status_code, answer.headers["accept-encoding"]) == (415, "identity")


async def test_who_hangs_up_in_the_middle_breaks_nothing(served: Served, admin: httpx.AsyncClient) -> None:
    """The API goes on, and nothing was changed."""
    host, port = served.url.removeprefix("http://").split(":")
    for _ in range(5):
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            f"POST /api/v1/apply HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN}\r\n"
            "content-type: application/json\r\ncontent-length: 1000\r\n\r\n[".encode()
        )
        await writer.drain()
        writer.close()
        await writer.wait_closed()
    assert (await admin.get("/api/v1/backends")).json() == {"items": []}


@pytest.mark.parametrize(
    ("content", "status"),
    [
        ("", 415),
        ("{", 400),
        ("[]", 422),
        ("null", 422),
        ('{"role": "viewer", "role": "admin"}', 400),
        ('{"role": "viewer"} x', 400),
        ('{"role": "\\ud800"}', 422),
        ('{"role": "viewer", "name": "\\ud800"}', 422),
        ('{"role": ' + "[" * 50_000, 400),
        ('{"role": ' + "1" * 5_000 + "}", 400),
    ],
)
async def test_odd_orders(visitor: httpx.AsyncClient, content: str, status: int) -> None:
    """Small bodies are read as strictly."""
    headers = {"content-type": "application/json"} if content else {}
    answer = await visitor.post("/api/v1/tokens", content=content, headers=headers)
    assert answer.status_code == status, answer.text
