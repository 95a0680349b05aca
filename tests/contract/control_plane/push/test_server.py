"""The push stream over real gRPC."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
import structlog

from control_plane.push.server import PushAddressError, PushServer
from control_plane.push.subscribers import Refusal, Subscribers
from ext_proc.contract import push_pb2, push_pb2_grpc
from ext_proc.contract.snapshot import Snapshot, content_version, decode


def compiler(revision: int) -> Callable[[str], Snapshot]:
    """Return a policy that differs by `revision` and workload only."""

    def compile_for(workload: str) -> Snapshot:
        blank = Snapshot(version="", revision=revision, workload=workload)
        return replace(blank, version=content_version(blank))

    return compile_for


class Sidecar:
    """A subscriber whose lines the test speaks."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._call = push_pb2_grpc.PolicyPushStub(channel).Connect()  # type: ignore[no-untyped-call]

    async def hello(self, name: str, workload: str = "web") -> None:
        """Say who is there."""
        hello = push_pb2.Hello(subscriber_id=name, workload=workload)
        await self._call.write(push_pb2.Report(hello=hello))

    async def receive(self) -> push_pb2.Snapshot:
        """Return the next snapshot."""
        return await asyncio.wait_for(self._call.read(), 5)

    async def ack(self, version: str) -> None:
        """Say that `version` is in force."""
        await self._call.write(push_pb2.Report(ack=push_pb2.Ack(version=version, oldest_in_use=version)))

    async def nack(self, version: str, reason: str) -> None:
        """Refuse `version`."""
        await self._call.write(push_pb2.Report(nack=push_pb2.Nack(version=version, reason=reason)))

    def leave(self) -> None:
        """Go without a word."""
        self._call.cancel()

    async def code(self) -> grpc.StatusCode:
        """Return how the server ended the stream."""
        return await asyncio.wait_for(self._call.code(), 5)


Connect = Callable[[], Sidecar]


@pytest.fixture
async def subscribers() -> Subscribers:
    """Return subscribers with revision 1 in force."""
    found = Subscribers()
    found.publish(compiler(1))
    return found


@pytest.fixture
async def connect(subscribers: Subscribers, tmp_path: Path) -> AsyncIterator[Connect]:
    """Return what opens streams to a running server."""
    address = f"unix:{tmp_path / 'push.sock'}"
    server = PushServer(subscribers, address, structlog.get_logger())
    await server.start()
    async with grpc.aio.insecure_channel(address) as channel:
        yield lambda: Sidecar(channel)
        await server.stop()


async def until(condition: Callable[[], bool]) -> None:
    """Let the server's tasks run until `condition` holds."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - plain data has no event
            await asyncio.sleep(0)


async def test_hello_is_answered_by_the_snapshot_of_its_workload(
    connect: Connect, subscribers: Subscribers
) -> None:
    """Version and content agree; the acknowledgement is recorded."""
    sidecar = connect()
    await sidecar.hello("a", "shop")
    message = await sidecar.receive()
    snapshot = decode(message.content)
    assert (snapshot.version, snapshot.workload, message.revision) == (message.version, "shop", 1)
    await sidecar.ack(message.version)
    await until(lambda: [found.identity.subscriber_id for found in subscribers.in_force()] == ["a"])


async def test_a_change_reaches_every_sidecar(connect: Connect, subscribers: Subscribers) -> None:
    """Two streams, one publish, two snapshots."""
    sidecars = [connect(), connect()]
    for index, sidecar in enumerate(sidecars):
        await sidecar.hello(str(index))
        assert (await sidecar.receive()).revision == 1
    subscribers.publish(compiler(2))
    assert [(await sidecar.receive()).revision for sidecar in sidecars] == [2, 2]


async def test_a_refusal_is_recorded_and_the_version_not_sent_again(
    connect: Connect, subscribers: Subscribers
) -> None:
    """After a reconnect the next message is the next version."""
    sidecar = connect()
    await sidecar.hello("a")
    refused = await sidecar.receive()
    await sidecar.nack(refused.version, "cluster x: bad address")
    await until(lambda: subscribers.by_id["a"].refusal is not None)
    assert subscribers.by_id["a"].refusal == Refusal(refused.version, "cluster x: bad address")
    sidecar.leave()
    again = connect()
    await again.hello("a")
    await until(lambda: subscribers.by_id["a"].connected)
    subscribers.publish(compiler(2))
    assert (await again.receive()).revision == 2


async def test_a_sidecar_that_goes_is_marked_as_gone(connect: Connect, subscribers: Subscribers) -> None:
    """A broken stream is noticed without waiting for a push."""
    sidecar = connect()
    await sidecar.hello("a")
    await sidecar.receive()
    sidecar.leave()
    await until(lambda: not subscribers.by_id["a"].connected)


async def test_a_second_connection_ends_the_first(connect: Connect) -> None:
    """One sidecar has one stream."""
    first, second = connect(), connect()
    await first.hello("a")
    await first.receive()
    await second.hello("a")
    assert (await second.receive()).revision == 1
    assert await first.code() is grpc.StatusCode.OK


@pytest.mark.parametrize("name", ["", None])
async def test_a_stream_without_hello_is_refused(connect: Connect, name: str | None) -> None:
    """An acknowledgement first, or no name, is a broken subscriber."""
    sidecar = connect()
    if name is None:
        await sidecar.ack("r1-x")
    else:
        await sidecar.hello(name)
    assert await sidecar.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_an_address_in_use_is_told_in_a_sentence(subscribers: Subscribers) -> None:
    """The message says which option to change."""
    first = PushServer(subscribers, "127.0.0.1:0", structlog.get_logger())
    await first.start()
    second = PushServer(subscribers, f"127.0.0.1:{first.port}", structlog.get_logger())
    with pytest.raises(PushAddressError, match="--push-address"):
        await second.start()
    await first.stop()


async def test_a_dead_predecessors_socket_is_no_obstacle(subscribers: Subscribers, tmp_path: Path) -> None:
    """After kill -9 the socket file is still there."""
    (tmp_path / "push.sock").touch()
    server = PushServer(subscribers, f"unix:{tmp_path / 'push.sock'}", structlog.get_logger())
    await server.start()
    await server.stop()
