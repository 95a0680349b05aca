"""The other end of a connection, in memory: sends frames or bytes as they are, and reads what comes back."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from typing import Any, NamedTuple

import structlog
from hpack import Decoder, Encoder

from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.calls import Serving
from ext_proc.transport.http2.connection import Connection
from ext_proc.transport.stream import Abort, Services, Status, Stream

MAX_MESSAGE_BYTES = 100_000


class Frame(NamedTuple):
    """One frame that the server sent."""

    kind: int
    flags: int
    stream_id: int
    payload: bytes


class Wire(asyncio.Transport):
    """A transport in memory. The protocol hears of its end a turn later, as from a socket."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._protocol = protocol
        self.written = bytearray()
        self.closed = False
        self.aborted = False

    def write(self, data: Any) -> None:
        """Keep what is sent."""
        assert not self.closed, "written after the end"
        self.written += data

    def is_closing(self) -> bool:
        """Return whether it is closed."""
        return self.closed

    def close(self) -> None:
        """End in order."""
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        """End at once."""
        self.aborted = True
        self.close()


class Peer:
    """A client of `services` over one connection. Leaves by `leave`, which checks that nothing is left."""

    def __init__(self, services: Services, max_message_bytes: int = MAX_MESSAGE_BYTES) -> None:
        loop = asyncio.get_running_loop()
        self.faults: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _loop, context: self.faults.append(context))
        self.serving = Serving(services, max_message_bytes, structlog.get_logger(), lambda: None)
        self.connection = Connection(self.serving, loop)
        self.wire = Wire(self.connection)
        self.connection.connection_made(self.wire)
        self.decoder = Decoder()
        self.encoder = Encoder()
        self._seen = 0

    def send(self, *data: bytes) -> None:
        """Let the connection receive bytes, in one read."""
        self.connection.data_received(b"".join(data))

    def greet(self, **settings: int) -> None:
        """Send preface, settings (by the names of `frames.SETTINGS_…`) and the acknowledgement of theirs."""
        values = {getattr(frames, f"SETTINGS_{name.upper()}"): value for name, value in settings.items()}
        acknowledgement = frames.frame(frames.SETTINGS, frames.ACK, 0)
        self.send(frames.PREFACE, frames.settings(values), acknowledgement)
        self.encoder.header_table_size = 0

    def open(self, stream_id: int, path: str = "/t/Echo", *, end: bool = False) -> bytes:
        """Return the frame that opens a call."""
        flags = frames.END_HEADERS | (frames.END_STREAM if end else 0)
        return frames.frame(frames.HEADERS, flags, stream_id, self.block(path))

    def block(self, path: str) -> bytes:
        """Return the header block of a call."""
        headers = [(":method", "POST"), (":scheme", "http"), (":path", path), ("te", "trailers")]
        block: bytes = self.encoder.encode(headers)
        return block

    def take(self) -> list[Frame]:
        """Return the frames that have come since the last time."""
        taken = []
        data = bytes(self.wire.written)
        while self._seen < len(data):
            high, low, kind, flags, stream_id = frames.read_header(data, self._seen)
            start = self._seen + frames.HEADER_BYTES
            self._seen = start + (high << 8 | low)
            assert self._seen <= len(data), "half a frame was sent"
            taken.append(Frame(kind, flags, stream_id, data[start : self._seen]))
        return taken

    async def answer(self) -> list[Frame]:
        """Return the frames that come until all is quiet."""
        await quiet()
        return self.take()

    def headers(self, frame: Frame) -> dict[str, str]:
        """Read a header block of the server."""
        return {str(name): str(value) for name, value in self.decoder.decode(frame.payload)}

    def status(self, taken: list[Frame], stream_id: int) -> str | None:
        """Return the status with which a call ended; None when it did not."""
        for frame in taken:
            if frame.kind == frames.HEADERS and frame.stream_id == stream_id:
                status = self.headers(frame).get("grpc-status")
                if status is not None:
                    assert frame.flags & frames.END_STREAM
                    return status
        return None

    async def lose(self) -> None:
        """Go away without a word."""
        self.wire.close()
        await quiet()

    async def leave(self) -> None:
        """Go away; check that no call, no task and no fault is left."""
        await self.lose()
        assert not self.connection.calls
        assert not self.serving.connections
        assert not self.serving.leaving
        assert not serving_tasks()
        assert not self.faults

    async def works(self, stream_id: int) -> None:
        """Check that the connection goes on: a new call on it is answered."""
        windows = frames.window_update(0, 1000) + frames.window_update(stream_id, 1000)
        self.send(self.open(stream_id), windows, data(stream_id, message(b"still?"), end=True))
        taken = await self.answer()
        assert messages(taken, stream_id) == [b"still?"]
        assert self.status(taken, stream_id) == "0"


async def quiet() -> None:
    """Let everything happen that waits for nothing outside."""
    for _ in range(8):
        await asyncio.sleep(0)


def message(content: bytes, *, compressed: bool = False) -> bytes:
    """Return a gRPC message with its prefix."""
    return bytes([compressed]) + len(content).to_bytes(4, "big") + content


def data(stream_id: int, payload: bytes, *, end: bool = False) -> bytes:
    """Return a DATA frame."""
    return frames.frame(frames.DATA, frames.END_STREAM if end else 0, stream_id, payload)


def sent(taken: list[Frame], stream_id: int) -> bytes:
    """Return the bytes that a call was sent."""
    return b"".join(f.payload for f in taken if f.kind == frames.DATA and f.stream_id == stream_id)


def messages(taken: list[Frame], stream_id: int) -> list[bytes]:
    """Return the whole messages that a call was sent."""
    payload, found = sent(taken, stream_id), []
    while payload:
        end = 5 + int.from_bytes(payload[1:5], "big")
        assert payload[0] == 0
        assert len(payload) >= end, "a message is not whole"
        found.append(payload[5:end])
        payload = payload[end:]
    return found


def goaway(taken: list[Frame]) -> tuple[int, int] | None:
    """Return the last stream and the code of the last GOAWAY among `taken`."""
    ends = [f.payload for f in taken if f.kind == frames.GOAWAY]
    return (frames.read_long(ends[-1]), frames.read_long(ends[-1], 4)) if ends else None


def reset(taken: list[Frame], stream_id: int) -> int | None:
    """Return the code with which a call was reset."""
    codes = [f.payload for f in taken if f.kind == frames.RST_STREAM and f.stream_id == stream_id]
    return frames.read_long(codes[0]) if codes else None


class Room:
    """Services for tests, and who has come and gone there."""

    def __init__(self) -> None:
        self.parked = 0
        self.cancelled = 0
        self.read: list[bytes | None] = []

    def services(self) -> Services:
        """Return the services by path."""
        return {
            "/t/Echo": self.echo,
            "/t/Park": self.park,
            "/t/Read": self.take,
            "/t/Large": self.large,
            "/t/Impatient": self.impatient,
            "/t/Stubborn": self.stubborn,
            "/t/Abort": self.abort,
            "/t/Fail": self.fail,
            "/t/Inner": self.inner,
        }

    async def echo(self, stream: Stream) -> None:
        """Give every message back."""
        while (received := await stream.read()) is not None:
            await stream.write(received)

    async def park(self, _stream: Stream) -> None:
        """Wait for ever."""
        self.parked += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.parked -= 1
            self.cancelled += 1

    async def take(self, stream: Stream) -> None:
        """Read all, and say nothing."""
        while True:
            received = await stream.read()
            self.read.append(received)
            if received is None:
                return

    async def large(self, stream: Stream) -> None:
        """Give as many bytes as the first message says, in one message; then end."""
        received = await stream.read()
        await stream.write(b"x" * int(received or b"0"))

    async def impatient(self, stream: Stream) -> None:
        """Give one message and end without waiting until it is taken."""
        writing = asyncio.ensure_future(stream.write(b"x" * 20))
        await asyncio.sleep(0)
        writing.cancel()

    async def stubborn(self, stream: Stream) -> None:
        """Go on although cancelled."""
        with suppress(asyncio.CancelledError):
            await stream.read()
        self.cancelled += 1
        self.read.append(await stream.read())
        await stream.write(b"too late")

    async def abort(self, stream: Stream) -> None:
        """End with the first message as the status."""
        received = await stream.read()
        raise Abort(Status.UNAVAILABLE, (received or b"").decode("utf-8", "surrogateescape"))

    async def fail(self, _stream: Stream) -> None:
        """Fail."""
        raise ZeroDivisionError("a secret")

    async def inner(self, _stream: Stream) -> None:
        """Await something that another has cancelled."""
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future


def serving_tasks() -> list[str]:
    """Return the tasks that serve calls."""
    return [repr(task) for task in asyncio.all_tasks() if "Calls._serve" in repr(task.get_coro())]


def alive(kind: type) -> int:
    """Return how many objects of a type there are."""
    gc.collect()
    return sum(1 for thing in gc.get_objects() if type(thing) is kind)
