"""The socket and the end in order, with real connections."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import structlog

from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.server import LEAVE_S, Http2Server
from tests.unit.ext_proc.transport.http2.peer import Room, serving_tasks

GREETING = frames.PREFACE + frames.settings({})


@pytest.fixture
def room() -> Room:
    """The services of one test."""
    return Room()


@pytest.fixture
async def server(room: Room) -> AsyncIterator[tuple[Http2Server, Path]]:
    """A server that listens. After the test no exception may have escaped and no task may be left."""
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))
    with TemporaryDirectory(prefix="or-") as folder:
        socket = Path(folder) / "s.sock"
        made = Http2Server(room.services(), socket, 1000, structlog.get_logger())
        await made.start()
        yield made, socket
        await made.stop(0)
        assert not serving_tasks()
        assert not faults


async def read_all(reader: asyncio.StreamReader) -> bytes:
    """Read until the connection ends."""
    async with asyncio.timeout(5):
        return await reader.read()


async def test_a_predecessors_socket_is_taken_over(server: tuple[Http2Server, Path], room: Room) -> None:
    """A process that was killed leaves one; the next listens there all the same."""
    _, socket = server
    successor = Http2Server(room.services(), socket, 1000, structlog.get_logger())
    await successor.start()
    _, writer = await asyncio.open_unix_connection(str(socket))
    writer.close()
    await successor.stop(0)
    assert not socket.exists()


async def test_a_socket_that_cannot_be(room: Room) -> None:
    """OSError says so; stopping what never listened is no error."""
    server = Http2Server(room.services(), Path("/nowhere/s.sock"), 1000, structlog.get_logger())
    with pytest.raises(OSError, match="No such file"):
        await server.start()
    await server.stop(0)


async def test_an_idle_connection_is_let_go_at_once(server: tuple[Http2Server, Path]) -> None:
    """As soon as its peer has answered the ping; the socket is gone before."""
    made, socket = server
    reader, writer = await asyncio.open_unix_connection(str(socket))
    writer.write(GREETING)
    received = await reader.readexactly(1)
    begun = time.monotonic()
    stopping = asyncio.ensure_future(made.stop(5))
    while b"settling" not in received:
        received += await reader.read(1000)
    assert not socket.exists()
    writer.write(frames.frame(frames.PING, frames.ACK, 0, b"settling"))
    received += await read_all(reader)
    await stopping
    assert time.monotonic() - begun < 1
    assert received.count(frames.goaway(0, frames.NO_ERROR)) >= 1
    writer.close()


async def test_a_peer_that_does_not_answer_has_the_grace(
    server: tuple[Http2Server, Path], room: Room
) -> None:
    """Then it is cut off, and what ran for it is cancelled."""
    made, socket = server
    reader, writer = await asyncio.open_unix_connection(str(socket))
    block = b"\x20\x04\x07/t/Park"
    writer.write(GREETING + frames.frame(frames.SETTINGS, frames.ACK, 0))
    writer.write(frames.frame(frames.HEADERS, frames.END_HEADERS, 1, block))
    async with asyncio.timeout(5):
        while not room.parked:  # noqa: ASYNC110 (the service sees it, nobody tells)
            await asyncio.sleep(0.001)
    begun = time.monotonic()
    await made.stop(0.1)
    assert 0.1 <= time.monotonic() - begun < 0.1 + LEAVE_S
    assert room.cancelled == 1
    assert frames.goaway(1, frames.NO_ERROR) in await read_all(reader)
    writer.close()


async def test_a_peer_that_does_not_read_is_cut_off(server: tuple[Http2Server, Path], room: Room) -> None:
    """Though megabytes wait for it: its connection does not outlive the server."""
    made, socket = server
    reader, writer = await asyncio.open_unix_connection(str(socket), limit=1000)
    large = {frames.SETTINGS_INITIAL_WINDOW_SIZE: 2**30}
    writer.write(frames.PREFACE + frames.settings(large) + frames.window_update(0, 2**30))
    writer.write(frames.frame(frames.SETTINGS, frames.ACK, 0))
    writer.write(frames.frame(frames.HEADERS, frames.END_HEADERS, 1, b"\x20\x04\x08/t/Large"))
    writer.write(frames.message_frame(1, b"10000000"))
    await reader.readexactly(1)
    begun = time.monotonic()
    await made.stop(0.05)
    assert time.monotonic() - begun < 0.05 + LEAVE_S
    assert not serving_tasks()
    writer.close()
