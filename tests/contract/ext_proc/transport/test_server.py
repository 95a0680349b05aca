"""How a server ends, over each transport, and what its clients see of that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import pytest
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ext_proc.pipeline import Pipeline
from ext_proc.settings import Transport
from ext_proc.snapshots import SnapshotHolder
from ext_proc.transport.processor import SERVICE, ExternalProcessor
from ext_proc.transport.server import ProcessorServer, Server
from tests.contract.ext_proc.transport.serving import Client, Floor, channel, served
from tests.unit.ext_proc.exchanges import Counted

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
REFUSED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.CANCELLED)


@pytest.fixture(params=list(Transport))
def transport(request: pytest.FixtureRequest) -> Transport:
    """Each transport."""
    return Transport(request.param)


@pytest.fixture
async def floor() -> Floor:
    """The services of one test."""
    return Floor()


@pytest.fixture
async def running(transport: Transport, floor: Floor) -> AsyncIterator[tuple[Server, Client]]:
    """A server and a client that is connected to it."""
    async with served(transport, floor.services()) as (server, address), channel(address) as made:
        client = Client(made)
        assert await client.ask("/t/Echo", b"x") == [b"x"]
        yield server, client


async def test_calls_that_run_are_finished(running: tuple[Server, Client], floor: Floor) -> None:
    """Within the grace. New ones are refused: their client has been told, and tries elsewhere."""
    server, client = running
    call = client.call("/t/Wait")
    await call.write(b"x")
    await floor.begun.wait()
    stopping = asyncio.create_task(server.stop(10))
    async with asyncio.timeout(5):
        while True:  # some may come before the client has heard of it, and those are served
            try:
                await client.ask("/t/Echo", b"x")
            except grpc.aio.AioRpcError as error:
                # What else grpcio's client says of a call that is refused while it writes to it.
                assert error.code() in REFUSED
                break
    assert not stopping.done()
    begun = time.monotonic()
    floor.go.set()
    assert await call.read() == b"done"
    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK
    await stopping
    assert time.monotonic() - begun < 2


async def test_calls_that_take_longer_than_the_grace(running: tuple[Server, Client], floor: Floor) -> None:
    """They are cancelled, and the client is not left waiting."""
    server, client = running
    call = client.call("/t/Park")
    await call.write(b"x")
    await floor.begun.wait()
    begun = time.monotonic()
    await server.stop(0.2)
    assert 0.15 < time.monotonic() - begun < 2
    await asyncio.wait_for(floor.cancelled.wait(), 5)
    async with asyncio.timeout(5):
        assert await call.code() is not grpc.StatusCode.OK


async def test_a_server_without_calls_stops_at_once(running: tuple[Server, Client]) -> None:
    """Though clients are connected, whatever the grace."""
    server, _ = running
    begun = time.monotonic()
    await server.stop(10)
    assert time.monotonic() - begun < 1


@pytest.fixture
async def processor(transport: Transport) -> AsyncIterator[tuple[ProcessorServer, grpc.aio.Channel]]:
    """A processor's server without a snapshot."""
    with TemporaryDirectory(prefix="or-") as folder:
        socket, log = Path(folder) / "p.sock", structlog.get_logger()
        service = ExternalProcessor(Pipeline((), SnapshotHolder(), Counted()), log)
        server = ProcessorServer(service, socket, log, transport)
        await server.start()
        async with channel(f"unix:{socket}") as made:
            yield server, made
        await server.stop(0)


async def test_health_checks(processor: tuple[ProcessorServer, grpc.aio.Channel]) -> None:
    """Of the server and of its service; NOT_FOUND for others."""
    server, made = processor
    stub = health_pb2_grpc.HealthStub(made)
    for name in ("", SERVICE):
        assert (await stub.Check(health_pb2.HealthCheckRequest(service=name))).status == NOT_SERVING
    server.serve()
    for name in ("", SERVICE):
        assert (await stub.Check(health_pb2.HealthCheckRequest(service=name))).status == SERVING
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await stub.Check(health_pb2.HealthCheckRequest(service="other"))
    assert failed.value.code() is grpc.StatusCode.NOT_FOUND


async def test_health_watches(processor: tuple[ProcessorServer, grpc.aio.Channel]) -> None:
    """They hear of every change and of the end, and do not hold the server up."""
    server, made = processor
    stub = health_pb2_grpc.HealthStub(made)
    watch = stub.Watch(health_pb2.HealthCheckRequest(service=SERVICE))
    other = stub.Watch(health_pb2.HealthCheckRequest(service="other"))
    assert (await watch.read()).status == NOT_SERVING
    assert (await other.read()).status == UNKNOWN
    server.serve()
    assert (await watch.read()).status == SERVING
    begun = time.monotonic()
    stopping = asyncio.create_task(server.stop(10))
    assert (await watch.read()).status == NOT_SERVING
    assert await watch.read() is grpc.aio.EOF
    await stopping
    assert time.monotonic() - begun < 2
