"""A provider that answers byte for byte what a test tells it to, in good manners or bad.

It runs in a thread of its own, so synchronous and asynchronous tests share one. A request that carries
`x-script: NAME` gets the next answer of that script (the last one again when they are used up); any other
gets an ordinary completion that names its number and repeats the question.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Self

from tests.harness.raw_http import Message


class Act(Enum):
    """What an answer may do beside sending bytes and sleeping."""

    CLOSE = "close"
    RESET = "reset"
    HOLD = "hold"  # until the caller goes away or the test calls `release`


Piece = bytes | float | Act


@dataclass(slots=True)
class Seen(Message):
    """One request as it arrived."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    connection: int
    at: float
    aborted: threading.Event = field(default_factory=threading.Event)
    trailers: list[tuple[str, str]] = field(default_factory=list)


def reply(
    status: int = 200,
    body: bytes | str | dict[str, Any] = b"{}",
    headers: Sequence[tuple[str, str]] = (),
    content_type: str = "application/json",
) -> bytes:
    """Return one well-formed response."""
    if isinstance(body, dict):
        body = json.dumps(body)
    if isinstance(body, str):
        body = body.encode()
    lines = [f"HTTP/1.1 {status} Status", f"content-type: {content_type}", f"content-length: {len(body)}"]
    lines.extend(f"{name}: {value}" for name, value in headers)
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
STREAM_END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """Return `data` as one chunk of a chunked body."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n" if data else b""


def event(document: object) -> bytes:
    """Return one SSE event with `document` as its data."""
    return b"data: " + json.dumps(document, ensure_ascii=False).encode() + b"\n\n"


def completion(content: str = "hello", **more: Any) -> dict[str, Any]:
    """Return a chat completion."""
    return {
        "id": "chatcmpl-rude",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "rude",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
        **more,
    }


def delta(content: str | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """Return one chunk of a chat stream."""
    return {
        "id": "chatcmpl-rude",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "rude",
        "choices": [
            {"index": 0, "delta": {} if content is None else {"content": content}, "finish_reason": finish}
        ],
        **more,
    }


def stream_events(*contents: str) -> list[bytes]:
    """Return the SSE events of a whole chat stream."""
    return [*(event(delta(text)) for text in contents), event(delta(finish="stop")), b"data: [DONE]\n\n"]


def stream_reply(events: Sequence[bytes], gap: float = 0.0) -> list[Piece]:
    """Return a whole stream as an answer, one event a chunk, `gap` seconds between them."""
    pieces: list[Piece] = [STREAM_HEAD]
    for one in events:
        pieces.append(chunk(one))
        if gap:
            pieces.append(gap)
    return [*pieces, STREAM_END]


Answering = Callable[[Seen], list[Piece]]


class RudeProvider:
    """The provider. Use it as a context manager."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self.host = host
        self.port = port
        self.opened = 0
        self._lock = threading.Lock()
        self._scripts: dict[str, list[list[Piece] | Answering]] = {}
        self._seen: dict[str, list[Seen]] = {}
        self._released: set[str] = set()
        self._counter = itertools.count(1)
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rude-provider", daemon=True)

    @property
    def url(self) -> str:
        """The base URL for a Backend."""
        return f"http://127.0.0.1:{self.port}/v1"

    def script(self, name: str, *answers: bytes | Sequence[Piece] | Answering) -> dict[str, str]:
        """Set the answers of a script, or what makes them, and return the request headers that select it."""
        with self._lock:
            self._scripts[name] = [
                one if callable(one) else [one] if isinstance(one, bytes) else list(one) for one in answers
            ]
            self._seen[name] = []
            self._released.discard(name)
        return {"x-script": name}

    def seen(self, name: str = "") -> list[Seen]:
        """Return the requests of a script in the order of their arrival ("": those without a script)."""
        with self._lock:
            return list(self._seen.get(name, []))

    def release(self, name: str) -> None:
        """Let every held answer of a script go on."""
        with self._lock:
            self._released.add(name)

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait(5)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            self._loop.create_server(lambda: _Connection(self), self.host, self.port, backlog=8192)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def take(self, seen: Seen) -> list[Piece]:
        """Record a request and return its answer (called by the connections, in the provider's thread)."""
        name = seen.get("x-script") or ""
        with self._lock:
            self._seen.setdefault(name, []).append(seen)
            answers = self._scripts.get(name)
            if answers:
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                return answer(seen) if callable(answer) else answer
        return self._ordinary(seen)

    def is_released(self, name: str) -> bool:
        """Return whether the test lets the held answers of a script go on."""
        with self._lock:
            return name in self._released

    def _ordinary(self, seen: Seen) -> list[Piece]:
        content = f"answer {next(self._counter)}"
        streamed = False
        try:
            document = seen.json()
            streamed = bool(document.get("stream"))
            content += f" to {document['messages'][-1]['content']}"
        except (ValueError, AttributeError, LookupError, TypeError):
            pass  # another operation, or what a test of odd requests sends
        if streamed:
            return stream_reply(stream_events(*content.split()))
        body = b"" if seen.method == "HEAD" else json.dumps(completion(content)).encode()
        return [reply(200, body)]


class _Connection(asyncio.Protocol):
    """One connection to the provider: requests in turn, each answered by its script."""

    def __init__(self, provider: RudeProvider) -> None:
        self._provider = provider
        self._buffer = bytearray()
        self._arrived = asyncio.Event()
        self._lost = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._provider.opened += 1
        self._number = self._provider.opened
        self._task = asyncio.get_running_loop().create_task(self._serve())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._arrived.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost.set()
        self._arrived.set()

    async def _serve(self) -> None:
        try:
            while not self._lost.is_set():
                seen = await self._request()
                if not await self._answer(seen, self._provider.take(seen)):
                    return
        except (EOFError, ValueError):
            self._transport.close()

    async def _answer(self, seen: Seen, pieces: list[Piece]) -> bool:
        """Act out an answer and return whether the connection can take another request."""
        for piece in pieces:
            if self._lost.is_set():
                seen.aborted.set()
                return False
            if isinstance(piece, bytes):
                self._transport.write(piece)
                await asyncio.sleep(0)
            elif isinstance(piece, float):
                await self._rest(piece)
            elif piece is Act.HOLD:
                while not self._lost.is_set() and not self._provider.is_released(seen.get("x-script") or ""):
                    await self._rest(0.01)
            else:
                if piece is Act.RESET:
                    linger = struct.pack("ii", 1, 0)
                    self._transport.get_extra_info("socket").setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, linger
                    )
                self._transport.close()
                return False
        if self._lost.is_set():
            seen.aborted.set()
        return True

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._lost.wait()
        except TimeoutError:
            return

    async def _request(self) -> Seen:
        head = (await self._until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ", 2)
        headers = _fields(head[1:])
        names = {name.lower(): value for name, value in headers}
        seen = Seen(method, target, headers, b"", self._number, time.monotonic())
        if names.get("transfer-encoding", "").lower() == "chunked":
            pieces = []
            while size := int(await self._until(b"\r\n"), 16):
                pieces.append((await self._exactly(size + 2))[:-2])
            while line := (await self._until(b"\r\n"))[:-2].decode("latin-1"):
                seen.trailers.extend(_fields([line]))
            seen.body = b"".join(pieces)
        elif length := int(names.get("content-length", "0")):
            seen.body = await self._exactly(length)
        return seen

    async def _until(self, mark: bytes) -> bytes:
        while (at := self._buffer.find(mark)) < 0:
            await self._more()
        return self._take(at + len(mark))

    async def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            await self._more()
        return self._take(size)

    async def _more(self) -> None:
        if self._lost.is_set():
            raise EOFError
        self._arrived.clear()
        await self._arrived.wait()

    def _take(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken


def _fields(lines: Sequence[str]) -> list[tuple[str, str]]:
    pairs = (line.partition(":") for line in lines if line)
    return [(name, value.strip()) for name, _, value in pairs]
