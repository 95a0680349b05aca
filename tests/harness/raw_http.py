"""HTTP/1.1 as bytes on a socket: nothing is normalised, completed or hidden."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Headers = Sequence[tuple[str, str]]


class Message:
    """What a request and a response have in common."""

    __slots__ = ()
    headers: list[tuple[str, str]]
    body: bytes

    def all(self, name: str) -> list[str]:
        """Return every value of a header, in order."""
        return [value for key, value in self.headers if key.lower() == name]

    def get(self, name: str) -> str | None:
        """Return the first value of a header."""
        return next(iter(self.all(name)), None)

    def json(self) -> Any:
        """Return the body as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Answer(Message):
    """One response. `interim` holds the statuses of 1xx answers that came before it."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    trailers: list[tuple[str, str]] = field(default_factory=list)
    interim: list[int] = field(default_factory=list)

    def error(self) -> dict[str, Any]:
        """Return the error object, having checked that it has OpenAI's shape.

        Raises:
            AssertionError: it has not.
        """
        assert (self.get("content-type") or "").startswith("application/json"), self
        error = self.json()["error"]
        assert set(error) >= {"message", "type", "param", "code"}, self.body
        assert isinstance(error["message"], str), self.body
        assert error["message"], self.body
        assert isinstance(error["type"], str), self.body
        assert error["param"] is None or isinstance(error["param"], str), self.body
        assert error["code"] is None or isinstance(error["code"], str), self.body
        return dict(error)


def request_bytes(
    method: str,
    target: str,
    body: bytes | None = None,
    headers: Headers = (),
    version: str = "HTTP/1.1",
) -> bytes:
    """Return one request. `host` and `content-length` are added unless given; nothing else is."""
    names = {name.lower() for name, _ in headers}
    lines = [f"{method} {target} {version}"]
    if "host" not in names:
        lines.append("host: mesh.test")
    lines.extend(f"{name}: {value}" for name, value in headers)
    if body is not None and not names & {"content-length", "transfer-encoding"}:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + (body or b"")


def json_request(target: str, document: object, headers: Headers = (), method: str = "POST") -> bytes:
    """Return a JSON request."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return request_bytes(method, target, body, [("content-type", "application/json"), *headers])


class Connection:
    """One client connection. Use `connect` as an async context manager."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def send(self, data: bytes) -> None:
        """Write `data` and wait until it is handed to the kernel."""
        self.writer.write(data)
        await self.writer.drain()

    async def receive(self, head_only: bool = False) -> Answer:
        """Read one response (`head_only`: to a HEAD request, so no body follows)."""
        interim: list[int] = []
        while True:
            status, headers = await self.receive_head()
            if status >= 200 or status == 101:
                break
            interim.append(status)
        names = {name.lower(): value for name, value in headers}
        body = b""
        trailers: list[tuple[str, str]] = []
        if head_only or status in (101, 204, 304):
            pass
        elif names.get("transfer-encoding", "").lower() == "chunked":
            body, trailers = await self._chunked()
        elif "content-length" in names:
            body = await self.reader.readexactly(int(names["content-length"]))
        else:
            body = await self.reader.read()
        return Answer(status, headers, body, trailers, interim)

    async def receive_head(self) -> tuple[int, list[tuple[str, str]]]:
        """Read a status line and headers."""
        status = int((await self.reader.readuntil(b"\r\n")).split()[1])
        return status, await self._fields()

    async def receive_chunk(self) -> bytes:
        """Read one chunk of a chunked body; b"" is the end of the body."""
        size = int((await self.reader.readuntil(b"\r\n")).split(b";")[0], 16)
        if size == 0:
            return b""
        data = await self.reader.readexactly(size + 2)
        return data[:-2]

    async def _fields(self) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        while (line := await self.reader.readuntil(b"\r\n")) != b"\r\n":
            name, _, value = line.decode("latin-1").partition(":")
            found.append((name, value.strip()))
        return found

    async def _chunked(self) -> tuple[bytes, list[tuple[str, str]]]:
        pieces: list[bytes] = []
        while piece := await self.receive_chunk():
            pieces.append(piece)
        return b"".join(pieces), await self._fields()


async def connect(port: int) -> Connection:
    """Open a connection to a loopback port."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=64 * 1024 * 1024)
    return Connection(reader, writer)


async def ask(port: int, data: bytes, seconds: float = 10.0, head_only: bool = False) -> Answer:
    """Send one request on a connection of its own and return the answer.

    Raises:
        TimeoutError: there was none within `seconds`.
    """
    async with asyncio.timeout(seconds), await connect(port) as connection:
        await connection.send(data)
        return await connection.receive(head_only)


async def post(
    port: int,
    document: object,
    headers: Mapping[str, str] | None = None,
    target: str = "/v1/chat/completions",
    seconds: float = 10.0,
) -> Answer:
    """POST JSON on a connection of its own and return the answer."""
    return await ask(port, json_request(target, document, list((headers or {}).items())), seconds)
