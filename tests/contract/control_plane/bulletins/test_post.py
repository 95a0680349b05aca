"""One attempt, over real sockets."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from control_plane.bulletins.courier import NotTakenError
from control_plane.bulletins.post import Post
from control_plane.registry.ports import Bulletin
from control_plane.resources.kinds.release import Webhook

NOW = datetime(2030, 1, 1, tzinfo=UTC)
BULLETIN = Bulletin("msg_1", "r", "{}", '{"type":"release.step"}', NOW, NOW)
SIGNED = {"secret": {"env": "SECRET"}}


class Receiver:
    """An HTTP server that keeps what it is sent and answers what it is told to."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.received = b""
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        while b"\r\n\r\n{" not in self.received:
            self.received += await reader.read(65536)
        writer.write(self.answer)
        await writer.drain()
        if not self.answer:
            await reader.read()
        writer.close()


@asynccontextmanager
async def receiver(answer: bytes) -> AsyncIterator[Receiver]:
    """Run a receiver."""
    found = Receiver(answer)
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook?token=t"
    yield found
    server.close()


def post(timeout_s: float = 10, **environment: str) -> Post:
    """Return what sends, at a set time."""
    return Post(lambda: {}, environment, lambda: 1_700_000_000.9, timeout_s=timeout_s)


def webhook(url: str, **more: Any) -> Webhook:
    """Return a webhook as a document has it."""
    return Webhook.model_validate({"url": url, **more})


async def test_it_is_posted_as_it_is_and_signed() -> None:
    """Body byte for byte, the path with its query, and headers that can be checked with the secret."""
    async with receiver(b"HTTP/1.1 204 No Content\r\n\r\n") as found:
        await post(SECRET="hunter2").send(BULLETIN, webhook(found.url, **SIGNED))
    head, _, body = found.received.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    assert (first, body) == ("POST /hook?token=t HTTP/1.1", BULLETIN.body.encode())
    assert headers["content-type"] == "application/json"
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("msg_1", "1700000000")
    digest = hmac.new(b"hunter2", b"msg_1.1700000000." + body, hashlib.sha256).digest()
    assert headers["webhook-signature"] == f"v1,{b64encode(digest).decode()}".lower()
    assert b"hunter2" not in found.received


@pytest.mark.parametrize(
    ("answer", "reason", "for_good"),
    [
        (b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n", "it answered with 500", False),
        (b"HTTP/1.1 302 No\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n", "it answered with 302", False),
        (b"HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n", "it answered with 410", True),
        (b"nonsense\r\n\r\n", "it does not speak HTTP", False),
        (b"", "no answer in time", False),
    ],
)
async def test_anything_but_success_is_not_taken(answer: bytes, reason: str, for_good: bool) -> None:
    """Redirects are not followed; the reason says no more than what happened."""
    async with receiver(answer) as found:
        with pytest.raises(NotTakenError) as refused:
            await post(timeout_s=10 if answer else 0.3).send(BULLETIN, webhook(found.url))
    assert (str(refused.value), refused.value.for_good) == (reason, for_good)


async def test_a_long_answer_is_not_read() -> None:
    """Its status says enough."""
    async with receiver(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n") as found:
        await post().send(BULLETIN, webhook(found.url))


async def test_nobody_there_is_not_taken() -> None:
    """And tried again later."""
    with pytest.raises(NotTakenError, match="cannot be reached"):
        await post().send(BULLETIN, webhook("http://127.0.0.1:1/"))


async def test_without_its_secret_nothing_is_sent() -> None:
    """Unsigned it would be refused, or worse, believed."""
    async with receiver(b"") as found:
        with pytest.raises(NotTakenError, match="variable SECRET is not there"):
            await post().send(BULLETIN, webhook(found.url, **SIGNED))
    assert found.received == b""
