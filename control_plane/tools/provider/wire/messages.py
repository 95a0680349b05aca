"""A request and the reply to it, whatever the HTTP version."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Request:
    """One request with its whole body. `path` is as it was sent, without the query; names are lower-case.

    `http_version` is "1.0", "1.1" or "2"; `connection` the id of the connection it came on.
    """

    method: str
    path: str
    query: str
    headers: Headers
    body: bytes
    http_version: str
    connection: int


class Reply(Protocol):
    """The way back to one caller. When the caller leaves, the task that answers it is cancelled.

    Either `send`, or `start`, any number of `write` and `end`, or `raw`; `close` and `reset` break off
    at any point.
    """

    status: int
    """The status that was sent, 0 before."""

    broken: bool
    """Whether `close` or `reset` broke the answer off."""

    async def send(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer, with its content-length unless `headers` have one, right or wrong."""

    async def start(self, status: int, headers: Headers) -> None:
        """Send the headers of an answer whose body comes in pieces."""

    async def write(self, *pieces: bytes) -> None:
        """Send pieces of the body, each in a chunk or frame of its own; waits while the caller is slow."""

    async def end(self, trailers: Headers = ()) -> None:
        """End the body."""

    async def raw(self, data: bytes) -> None:
        """Write `data` as the whole answer and close; on HTTP/2 it has no meaning: reset the stream."""

    def close(self) -> None:
        """Break off: close the connection, or reset the HTTP/2 stream."""

    def reset(self) -> None:
        """Break off by a TCP reset of the connection."""


def has_length(headers: Headers) -> bool:
    """Return whether `headers` have a content-length."""
    return any(name.lower() == "content-length" for name, _ in headers)


Handler = Callable[[Request, Reply], Awaitable[None]]
"""Answers one request. It must not raise anything but `asyncio.CancelledError`."""
