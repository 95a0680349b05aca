"""What a transport gives a service: one gRPC call as a stream of messages (bytes), whoever carries it.

A service is an async function of one `Stream`. It returns to end the call in order, raises `Abort` to end it
with a status, and is cancelled when the peer resets the call or goes away. Knows no protocol below.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum
from typing import Protocol


class Status(IntEnum):
    """The gRPC statuses in use (https://grpc.github.io/grpc/core/md_doc_statuscodes.html)."""

    OK = 0
    UNKNOWN = 2
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class Abort(Exception):
    """Ends a call with `status`; `message` is shown to the peer."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Stream(Protocol):
    """One call. Reads and writes come from one coroutine, one at a time."""

    async def read(self) -> bytes | None:
        """Return the next message; None once the peer has sent its last."""
        ...

    async def write(self, message: bytes) -> None:
        """Send `message`; waits while the peer does not take what was sent before."""
        ...


Service = Callable[[Stream], Awaitable[None]]
Services = Mapping[str, Service]
"""From a method's path (`/package.Service/Method`) to what serves it."""
