"""The health service over a stream that a test holds at both ends."""

from __future__ import annotations

import asyncio

import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from ext_proc.transport.health import Health
from ext_proc.transport.stream import Abort, Status


class Held:
    """A `Stream` with one message in it; keeps what is written."""

    def __init__(self, message: bytes | None) -> None:
        self._messages = [message]
        self.written: list[int] = []

    async def read(self) -> bytes | None:
        """Return the message, then the end."""
        return self._messages.pop() if self._messages else None

    async def write(self, message: bytes) -> None:
        """Keep the status."""
        self.written.append(HealthCheckResponse.FromString(message).status)


def asking(service: str) -> Held:
    """Return a stream that asks for `service`."""
    return Held(HealthCheckRequest(service=service).SerializeToString())


async def test_nothing_serves_until_it_is_said() -> None:
    """Then everything that is known does, until it is said otherwise."""
    health = Health("a")
    check = health.services()["/grpc.health.v1.Health/Check"]
    streams = [asking("a"), asking(""), asking("a")]
    await check(streams[0])
    health.set(True)
    await check(streams[1])
    health.end()
    await check(streams[2])
    seen = [stream.written for stream in streams]
    assert seen == [
        [HealthCheckResponse.NOT_SERVING],
        [HealthCheckResponse.SERVING],
        [HealthCheckResponse.NOT_SERVING],
    ]


@pytest.mark.parametrize(
    ("message", "status"), [(b"\xff\xff", Status.INTERNAL), (b"\x0a\x01b", Status.NOT_FOUND)]
)
async def test_questions_that_have_no_answer(message: bytes, status: Status) -> None:
    """What is no request, and what is not known."""
    with pytest.raises(Abort) as aborted:
        await Health("a").services()["/grpc.health.v1.Health/Check"](Held(message))
    assert aborted.value.status is status


async def test_a_client_that_asks_for_nothing_asks_for_the_server() -> None:
    """An end without a message is an empty message."""
    stream = Held(None)
    await Health().services()["/grpc.health.v1.Health/Check"](stream)
    assert stream.written == [HealthCheckResponse.NOT_SERVING]


async def test_a_watch_ends_with_health() -> None:
    """After its last word."""
    health, stream = Health("a"), asking("a")
    watching = asyncio.ensure_future(health.services()["/grpc.health.v1.Health/Watch"](stream))
    await asyncio.sleep(0)
    health.set(True)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    health.end()
    await asyncio.wait_for(watching, 5)
    serving, not_serving = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING
    assert stream.written == [not_serving, serving, not_serving]
