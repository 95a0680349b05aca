"""The library h2 as the peer, over a real socket: the server against a second reading of RFC 9113."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import structlog
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    PingAckReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.settings import SettingCodes

from ext_proc.transport.http2.server import Http2Server
from tests.unit.ext_proc.transport.http2.peer import Room, message

LARGE = 40 * 1024 * 1024


class Client:
    """One connection by h2. What is received is kept by stream; windows are opened only where told."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.events: list[Event] = []
        self.data: dict[int, bytearray] = {}
        self.unacknowledged: dict[int, int] = {}
        self.status: dict[int, str] = {}
        self.ended: set[int] = set()
        self.largest_frame = 0
        self.takes = True

    async def begin(self, settings: dict[SettingCodes, int] | None = None) -> None:
        """Greet."""
        self.h2.initiate_connection()
        if settings:
            self.h2.update_settings({int(name): value for name, value in settings.items()})
        await self.round_trip()

    async def flush(self) -> None:
        """Send what h2 has made."""
        self.writer.write(self.h2.data_to_send())
        await self.writer.drain()

    async def open(self, path: str = "/t/Echo", *, end: bool = False) -> int:
        """Open a call."""
        stream_id: int = self.h2.get_next_available_stream_id()
        headers = [(":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", path)]
        self.h2.send_headers(stream_id, [*headers, ("te", "trailers")], end_stream=end)
        self.data[stream_id] = bytearray()
        self.unacknowledged[stream_id] = 0
        await self.flush()
        return stream_id

    async def send(self, stream_id: int, payload: bytes, *, end: bool = False) -> None:
        """Send bytes as fast as windows and frames let them go."""
        view = memoryview(payload)
        while view:
            room = min(self.h2.local_flow_control_window(stream_id), self.h2.max_outbound_frame_size)
            if room <= 0:
                await self.receive()
                continue
            self.h2.send_data(stream_id, bytes(view[:room]))
            view = view[room:]
            await self.flush()
        if end:
            self.h2.end_stream(stream_id)
            await self.flush()

    async def receive(self) -> bool:
        """Take one read of the socket; return whether there was something."""
        received = await self.reader.read(2**20)
        for event in self.h2.receive_data(received):
            self.take(event)
        await self.flush()
        return bool(received)

    def take(self, event: Event) -> None:
        """Keep what an event says."""
        self.events.append(event)
        if isinstance(event, DataReceived):
            assert event.stream_id is not None
            self.data[event.stream_id] += event.data
            length = event.flow_controlled_length or 0
            self.largest_frame = max(self.largest_frame, length)
            if self.takes:
                self.h2.acknowledge_received_data(length, event.stream_id)
            else:
                self.unacknowledged[event.stream_id] += length
        elif isinstance(event, TrailersReceived | ResponseReceived):
            assert event.stream_id is not None
            status = [str(value) for name, value in event.headers or [] if str(name) == "grpc-status"]
            if status:
                self.status[event.stream_id] = status[0]
        elif isinstance(event, StreamEnded | StreamReset):
            assert event.stream_id is not None
            self.ended.add(event.stream_id)

    async def until_ended(self, *stream_ids: int) -> None:
        """Receive until these calls have ended."""
        async with asyncio.timeout(20):
            while not self.ended.issuperset(stream_ids):
                assert await self.receive(), "the connection has ended"

    async def round_trip(self) -> None:
        """Receive until the server has answered a ping: it has done all that came before."""
        before = self.count(PingAckReceived)
        self.h2.ping(b"12345678")
        await self.flush()
        while self.count(PingAckReceived) == before:
            assert await self.receive(), "the connection has ended"

    def count(self, kind: type[Event]) -> int:
        """Return how many events of a kind there were."""
        return sum(isinstance(event, kind) for event in self.events)

    def last(self) -> ConnectionTerminated | None:
        """Return the last GOAWAY."""
        found = [event for event in self.events if isinstance(event, ConnectionTerminated)]
        return found[-1] if found else None


class Served:
    """A server on a socket of its own."""

    def __init__(self, folder: str) -> None:
        self.room = Room()
        self.socket = Path(folder) / "s.sock"
        self.server = Http2Server(self.room.services(), self.socket, LARGE, structlog.get_logger())
        self.clients: list[Client] = []

    async def connect(self, settings: dict[SettingCodes, int] | None = None, limit: int = 2**20) -> Client:
        """Return a new connection that has greeted."""
        client = Client(*await asyncio.open_unix_connection(str(self.socket), limit=limit))
        self.clients.append(client)
        await client.begin(settings)
        return client


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    """A server; no exception may escape in it."""
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))
    with TemporaryDirectory(prefix="or-") as folder:
        made = Served(folder)
        await made.server.start()
        yield made
        for client in made.clients:
            client.writer.close()
        await made.server.stop(0)
        assert not faults


async def test_a_conversation(served: Served) -> None:
    """Head, messages and trailers come in order, and h2 finds nothing wrong with them."""
    client = await served.connect()
    stream_id = await client.open()
    await client.send(stream_id, message(b"a") + message(b"") + message(b"bc"))
    await client.send(stream_id, message(b"d"), end=True)
    await client.until_ended(stream_id)
    assert client.data[stream_id] == message(b"a") + message(b"") + message(b"bc") + message(b"d")
    assert client.status[stream_id] == "0"
    assert client.count(ResponseReceived) == client.count(TrailersReceived) == 1


@pytest.mark.parametrize("window", [0, 1, 7, 16_384])
async def test_small_windows(served: Served, window: int) -> None:
    """Nothing more than the window goes; all goes, update by update."""
    client = await served.connect({SettingCodes.INITIAL_WINDOW_SIZE: window})
    client.takes = False
    content = message(bytes(range(256)) * 2)
    stream_id = await client.open()
    await client.send(stream_id, content, end=True)
    await client.round_trip()
    assert client.data[stream_id] == content[:window]
    while stream_id not in client.ended:
        client.h2.increment_flow_control_window(100, stream_id)
        await client.round_trip()
    assert client.data[stream_id] == content
    assert client.status[stream_id] == "0"


async def test_the_window_of_the_connection(served: Served) -> None:
    """Several calls share it, and all of them end when it opens."""
    client = await served.connect({SettingCodes.INITIAL_WINDOW_SIZE: 1_000_000})
    client.takes = False
    ids = [await client.open("/t/Large") for _ in range(5)]
    for stream_id in ids:
        await client.send(stream_id, message(b"50000"), end=True)
    await client.round_trip()
    assert sum(map(len, client.data.values())) == 65_535
    client.h2.increment_flow_control_window(1_000_000)
    await client.flush()
    await client.until_ended(*ids)
    assert [len(client.data[stream_id]) for stream_id in ids] == [50_005] * 5


async def test_the_initial_window_changes_while_calls_are_open(served: Served) -> None:
    """Up, down, and below zero: h2 counts with us and would complain."""
    client = await served.connect({SettingCodes.INITIAL_WINDOW_SIZE: 1000})
    client.takes = False
    stream_id = await client.open("/t/Large")
    await client.send(stream_id, message(b"5000"))
    await client.round_trip()
    assert len(client.data[stream_id]) == 1000
    for initial, seen in [(10, 1000), (1000, 1000), (1001, 1001), (3000, 3000), (0, 3000), (10_000, 5005)]:
        client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: initial})
        await client.flush()
        await client.round_trip()
        assert len(client.data[stream_id]) == seen
    await client.until_ended(stream_id)


@pytest.mark.parametrize("size", [16_384, 100_000, 2**24 - 1])
async def test_the_size_of_frames(served: Served, size: int) -> None:
    """As large as the peer takes them, never larger."""
    settings = {SettingCodes.MAX_FRAME_SIZE: size, SettingCodes.INITIAL_WINDOW_SIZE: 2**30}
    client = await served.connect(settings)
    client.h2.increment_flow_control_window(2**30)
    stream_id = await client.open("/t/Large")
    await client.send(stream_id, message(b"1000000"), end=True)
    await client.until_ended(stream_id)
    assert client.largest_frame == min(size, 1_000_005)


async def test_a_large_message_through_default_windows(served: Served) -> None:
    """Both ways, frame by frame."""
    client = await served.connect()
    content = message(bytes(range(256)) * 8000)
    stream_id = await client.open("/t/Large")
    await client.send(stream_id, message(b"2000000"), end=True)
    other = await client.open()
    sending = asyncio.ensure_future(client.send(other, content, end=True))
    await client.until_ended(stream_id)
    await sending
    await client.until_ended(other)
    assert len(client.data[stream_id]) == 2_000_005
    assert client.data[other] == content


async def test_trailers_of_the_client(served: Served) -> None:
    """They end its side."""
    client = await served.connect()
    stream_id = await client.open()
    await client.send(stream_id, message(b"a"))
    client.h2.send_headers(stream_id, [("x-end", "1")], end_stream=True)
    await client.flush()
    await client.until_ended(stream_id)
    assert client.data[stream_id] == message(b"a")
    assert client.status[stream_id] == "0"


async def test_priorities_and_padding(served: Served) -> None:
    """They are no obstacle."""
    client = await served.connect()
    stream_id = client.h2.get_next_available_stream_id()
    client.data[stream_id] = bytearray()
    headers = [(":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", "/t/Echo")]
    client.h2.send_headers(stream_id, headers, priority_weight=7, priority_depends_on=0)
    client.h2.prioritize(stream_id, weight=200)
    client.h2.send_data(stream_id, message(b"padded"), end_stream=True, pad_length=200)
    await client.flush()
    await client.until_ended(stream_id)
    assert client.data[stream_id] == message(b"padded")


async def test_a_peer_that_does_not_read(served: Served) -> None:
    """Its windows are open, but the socket is full: writers wait, others are served, all comes in the end."""
    client = await served.connect({SettingCodes.INITIAL_WINDOW_SIZE: 2**30}, limit=2**16)
    client.h2.increment_flow_control_window(2**30)
    ids = [await client.open("/t/Large") for _ in range(4)]
    for stream_id in ids:
        await client.send(stream_id, message(b"2000000"), end=True)
    other = await served.connect()
    stream_id = await other.open()
    await other.send(stream_id, message(b"quick"), end=True)
    await other.until_ended(stream_id)
    await client.until_ended(*ids)
    assert [len(client.data[stream_id]) for stream_id in ids] == [2_000_005] * 4


async def test_a_lost_peer(served: Served) -> None:
    """All its calls are cancelled, also those whose messages wait for it."""
    client = await served.connect()
    for _ in range(10):
        await client.open("/t/Park")
    stream_id = await client.open("/t/Large")
    await client.send(stream_id, message(b"10000000"))
    await client.round_trip()
    assert served.room.parked == 10
    client.writer.transport.abort()
    async with asyncio.timeout(5):
        while served.room.cancelled < 10:  # noqa: ASYNC110 (the service sees it, nobody tells)
            await asyncio.sleep(0.001)


async def test_a_reset_by_the_client(served: Served) -> None:
    """Cancels the one call."""
    client = await served.connect()
    stream_id = await client.open("/t/Park")
    other = await client.open()
    await client.round_trip()
    client.h2.reset_stream(stream_id, ErrorCodes.CANCEL)
    await client.round_trip()
    assert served.room.cancelled == 1
    await client.send(other, message(b"on"), end=True)
    await client.until_ended(other)
    assert client.data[other] == message(b"on")


async def test_nonsense_is_answered_with_a_goaway(served: Served) -> None:
    """And the end of the connection; the server goes on."""
    client = await served.connect()
    await client.round_trip()
    client.writer.write(b"\x00\x00\x01\x06\x00\x00\x00\x00\x00x")
    while await client.receive():
        pass
    last = client.last()
    assert last is not None
    assert last.error_code == ErrorCodes.FRAME_SIZE_ERROR
    again = await served.connect()
    await again.round_trip()
