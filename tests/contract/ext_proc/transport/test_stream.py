"""Conformance: what a service and a real gRPC client see of each other, the same over each transport."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator

import grpc
import pytest

from ext_proc.settings import Transport
from ext_proc.transport.stream import Status
from tests.contract.ext_proc.transport.serving import MAX_MESSAGE_BYTES, Client, Floor, channel, crowd, served

LARGE = bytes(range(256)) * 4096 * 32  # 32 MiB


@pytest.fixture(params=list(Transport))
def transport(request: pytest.FixtureRequest) -> Transport:
    """Each transport."""
    return Transport(request.param)


@pytest.fixture
async def floor() -> Floor:
    """The services of one test."""
    return Floor()


@pytest.fixture
async def address(transport: Transport, floor: Floor) -> AsyncIterator[str]:
    """The address of a running server."""
    async with served(transport, floor.services()) as (_, made):
        yield made


@pytest.fixture
async def client(address: str) -> AsyncIterator[Client]:
    """A client with a connection of its own."""
    async with channel(address) as made:
        yield Client(made)


async def test_messages_come_in_order(client: Client) -> None:
    """Both ways, empty ones too, whether answered one by one or sent in a row."""
    messages = [b"a", b"", b"bc" * 5000, b"", b"d" * 100_000, b"e"]
    assert await client.ask("/t/Echo", *messages) == messages
    call = client.call("/t/Echo")
    for message in messages:
        await call.write(message)
        assert await call.read() == message
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK


async def test_the_end_of_the_client(client: Client) -> None:
    """The service reads None after the last message, also when there was none, and can still write."""
    assert await client.ask("/t/Count", b"abc", b"", b"de") == [b"[3, 0, 2]"]
    assert await client.ask("/t/Count") == [b"[]"]


async def test_the_end_of_the_service(client: Client) -> None:
    """It need not wait for the client's."""
    call = client.call("/t/Swap")
    await call.write(b"abc")
    assert await call.read() == b"cba"
    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK


async def test_a_cancelled_call(client: Client, floor: Floor) -> None:
    """Its service is cancelled within milliseconds; others go on."""
    call = client.call("/t/Park")
    await call.write(b"x")
    await floor.begun.wait()
    begun = time.monotonic()
    call.cancel()
    await asyncio.wait_for(floor.cancelled.wait(), 5)
    assert time.monotonic() - begun < 0.5
    assert await client.ask("/t/Echo", b"on") == [b"on"]


async def test_a_deadline(client: Client, floor: Floor) -> None:
    """A client that waits no longer cancels its service."""
    error = await client.failure("/t/Park", b"x", timeout=0.2)
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await asyncio.wait_for(floor.cancelled.wait(), 5)


LOST = """
import sys, grpc
channel = grpc.insecure_channel(sys.argv[1])
calls = [channel.stream_stream("/t/Park")(iter(lambda: b"x", None)) for _ in range(20)]
for call in calls: next(call)
"""


async def test_a_lost_peer(address: str, floor: Floor) -> None:
    """A client process that is killed takes all its calls with it."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", LOST, address)
    async with asyncio.timeout(20):
        while floor.running < 20:  # noqa: ASYNC110 (the services see it, nobody tells)
            await asyncio.sleep(0.005)
        process.kill()
        await process.wait()
        await floor.cancelled.wait()
    assert floor.running == 0


async def test_32_mib_both_ways(client: Client) -> None:
    """A message may be that long."""
    (answer,) = await client.ask("/t/Echo", LARGE)
    assert answer == LARGE


async def test_five_hundred_calls_open_at_once(client: Client) -> None:
    """On one connection; each gets its own answer."""
    calls = [client.call("/t/Echo") for _ in range(500)]
    for number, call in enumerate(calls):
        await call.write(b"%d" % number)
    for number, call in enumerate(calls):
        assert await call.read() == b"%d" % number
    for call in calls:
        await call.done_writing()
    assert {await call.code() for call in calls} == {grpc.StatusCode.OK}


async def test_ten_thousand_calls_open_at_once(address: str, transport: Transport) -> None:
    """The same by a client that is quick enough for it; fewer over grpcio, which is not."""
    number = 10_000 if transport is Transport.HTTP2 else 1000
    async with crowd(address, number) as calls, asyncio.timeout(60):
        calls.begin(end=False)
        await calls.until_answered()
        assert calls.answers == calls.contents
        calls.end()
        await calls.until_ended()


async def test_five_thousand_calls_in_a_burst(address: str, transport: Transport) -> None:
    """None is refused, and no answer crosses over; fewer over grpcio, for time."""
    async with crowd(address, 5000 if transport is Transport.HTTP2 else 1000) as calls, asyncio.timeout(60):
        calls.begin(end=True)
        await calls.until_ended()
        assert calls.answers == calls.contents


async def test_an_unknown_method(client: Client) -> None:
    """UNIMPLEMENTED; the connection goes on."""
    error = await client.failure("/t/None", b"x")
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED
    assert await client.ask("/t/Echo", b"on") == [b"on"]


@pytest.mark.parametrize("status", [status for status in Status if status])
@pytest.mark.parametrize("words", ["", "plain words", "100 % \u00fcber 好 😀\r\n~", '"<quoted>" {\\} ^`|'])
async def test_a_status(client: Client, status: Status, words: str) -> None:
    """It comes with its words, whatever they are made of."""
    error = await client.failure("/t/Abort", b"%d %s" % (status, words.encode()))
    assert error.code().value[0] == status
    assert error.details() == words


async def test_a_fault_in_a_service(client: Client) -> None:
    """INTERNAL, and nothing of what went wrong."""
    error = await client.failure("/t/Fail", b"x")
    assert error.code() is grpc.StatusCode.INTERNAL
    assert error.details() == "the call failed; see the log"


async def test_a_cancellation_of_the_services_own(client: Client) -> None:
    """A call whose service was cancelled from inside is ended, not left open."""
    error = await client.failure("/t/Inner", b"x", timeout=5)
    assert error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED


async def test_a_message_that_is_too_long(client: Client) -> None:
    """RESOURCE_EXHAUSTED; the connection and its other calls go on."""
    other = client.call("/t/Echo")
    await other.write(b"a")
    assert await other.read() == b"a"
    error = await client.failure("/t/Count", b"x" * (MAX_MESSAGE_BYTES + 1))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    await other.write(b"b")
    assert await other.read() == b"b"
    await other.done_writing()
    assert await client.ask("/t/Echo", b"on") == [b"on"]


async def test_a_compressed_message(client: Client, transport: Transport) -> None:
    """Envoy sends none. grpcio understands it, ours says that it does not; the connection goes on."""
    call = client.ask("/t/Echo", b"x" * 10_000, compression=grpc.Compression.Gzip)
    if transport is Transport.GRPCIO:
        assert await call == [b"x" * 10_000]
    else:
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await call
        assert failed.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert await client.ask("/t/Echo", b"on") == [b"on"]
