"""A server of small services over each transport, and a grpcio client of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import structlog
from hpack import Encoder

from ext_proc.settings import Transport
from ext_proc.transport.http2 import frames
from ext_proc.transport.server import Server, make_server
from ext_proc.transport.stream import Abort, Services, Status, Stream

MAX_MESSAGE_BYTES = 40 * 1024 * 1024
CHANNEL_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


class Floor:
    """Services that tests call, and what happened in them."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.go = asyncio.Event()
        self.running = 0

    def services(self) -> Services:
        """Return the services by path."""
        return {
            "/t/Echo": self.echo,
            "/t/Count": self.count,
            "/t/Park": self.park,
            "/t/Wait": self.wait,
            "/t/Abort": self.abort,
            "/t/Fail": self.fail,
            "/t/Inner": self.inner,
            "/t/Swap": self.swap,
        }

    async def echo(self, stream: Stream) -> None:
        """Give every message back."""
        while (received := await stream.read()) is not None:
            await stream.write(received)

    async def count(self, stream: Stream) -> None:
        """Read to the end, then say how many bytes each message had."""
        sizes = []
        while (received := await stream.read()) is not None:
            sizes.append(len(received))
        await stream.write(repr(sizes).encode())

    async def park(self, _stream: Stream) -> None:
        """Wait for ever."""
        self.running += 1
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.running -= 1
            if not self.running:
                self.cancelled.set()

    async def wait(self, stream: Stream) -> None:
        """Wait until the test says so, then answer."""
        self.begun.set()
        await self.go.wait()
        await stream.write(b"done")

    async def abort(self, stream: Stream) -> None:
        """End with a status: the first message is its number and, after a space, its words."""
        number, _, words = (await stream.read() or b"").partition(b" ")
        raise Abort(Status(int(number)), words.decode())

    async def fail(self, stream: Stream) -> None:
        """Fail after one message."""
        await stream.read()
        raise ZeroDivisionError("a secret")

    async def inner(self, _stream: Stream) -> None:
        """Await something that another has cancelled."""
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    async def swap(self, stream: Stream) -> None:
        """Answer one message, and end without waiting for the client's end."""
        received = await stream.read() or b""
        await stream.write(received[::-1])


class Client:
    """A channel to a server, bytes in and bytes out."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    def call(self, path: str, **options: Any) -> Any:
        """Open a call."""
        return self._channel.stream_stream(path)(**options)

    async def ask(self, path: str, *messages: bytes, **options: Any) -> list[bytes]:
        """Send messages and the end; return all answers."""
        call = self.call(path, **options)
        for message in messages:
            await call.write(message)
        await call.done_writing()
        return [answer async for answer in call]

    async def failure(self, path: str, message: bytes, **options: Any) -> grpc.aio.AioRpcError:
        """Send a message to a call that fails; return how it did.

        The message goes with the call: grpcio reports a message that comes after a call's end as a fault of
        its own, in place of the status.
        """
        try:
            answers = [answer async for answer in self._channel.unary_stream(path)(message, **options)]
        except grpc.aio.AioRpcError as error:
            return error
        raise AssertionError(f"the call was answered: {answers!r}")


class Crowd:
    """Many echo calls on one connection, frame by frame: a client that costs less than what it measures."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, calls: int) -> None:
        self._reader, self._writer = reader, writer
        self._open = set(range(1, 2 * calls + 1, 2))
        self.contents = {stream_id: _message(b"%d" % stream_id) for stream_id in self._open}
        self.answers = dict.fromkeys(self._open, b"")
        self._answered = 0
        self._rest = b""
        windows = frames.settings({frames.SETTINGS_HEADER_TABLE_SIZE: 0}) + frames.window_update(0, 2**30)
        writer.write(frames.PREFACE + windows)

    def begin(self, *, end: bool) -> None:
        """Open all calls with one message each."""
        headers = [(":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", "/t/Echo")]
        headers += [("te", "trailers"), ("content-type", "application/grpc")]
        encoder = Encoder()
        encoder.header_table_size = 0
        flags = frames.END_STREAM if end else 0
        self._writer.writelines(
            frames.frame(frames.HEADERS, frames.END_HEADERS, stream_id, encoder.encode(headers))
            + frames.frame(frames.DATA, flags, stream_id, content)
            for stream_id, content in sorted(self.contents.items())
        )

    def end(self) -> None:
        """End all calls, the last one first."""
        ids = sorted(self._open, reverse=True)
        self._writer.write(b"".join(frames.frame(frames.DATA, frames.END_STREAM, each) for each in ids))

    async def until_answered(self) -> None:
        """Receive until each call has as many bytes as it sent."""
        sent = sum(map(len, self.contents.values()))
        while self._answered < sent:
            await self._receive()

    async def until_ended(self) -> None:
        """Receive until all calls have ended in order."""
        while self._open:
            await self._receive()

    async def _receive(self) -> None:
        data, position = self._rest + await self._reader.read(2**20), 0
        while len(data) - position >= frames.HEADER_BYTES:
            high, low, kind, flags, stream_id = frames.read_header(data, position)
            start = position + frames.HEADER_BYTES
            end = start + (high << 8 | low)
            if end > len(data):
                break
            self._take(kind, flags, stream_id, data[start:end])
            position = end
        self._rest = data[position:]

    def _take(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        assert kind not in (frames.GOAWAY, frames.RST_STREAM), payload
        if kind == frames.DATA:
            self.answers[stream_id] += payload
            self._answered += len(payload)
        elif kind == frames.HEADERS and flags & frames.END_STREAM:
            self._open.remove(stream_id)
        elif kind == frames.PING and not flags:
            self._writer.write(frames.frame(frames.PING, frames.ACK, 0, payload))
        elif kind == frames.SETTINGS and not flags:
            self._writer.write(frames.frame(frames.SETTINGS, frames.ACK, 0))


def _message(content: bytes) -> bytes:
    return frames.message_prefix(content) + content


@asynccontextmanager
async def crowd(address: str, calls: int) -> AsyncIterator[Crowd]:
    """Connect a crowd to a gRPC address."""
    reader, writer = await asyncio.open_unix_connection(address.removeprefix("unix:"), limit=2**20)
    yield Crowd(reader, writer, calls)
    writer.close()
    await writer.wait_closed()


@asynccontextmanager
async def served(transport: Transport, services: Services) -> AsyncIterator[tuple[Server, str]]:
    """Serve on a socket of its own; gives the server and its gRPC address."""
    with TemporaryDirectory(prefix="or-") as folder:
        socket = Path(folder) / "s.sock"
        server = make_server(transport, services, socket, MAX_MESSAGE_BYTES, structlog.get_logger())
        await server.start()
        try:
            yield server, f"unix:{socket}"
        finally:
            await server.stop(0)


def channel(address: str) -> grpc.aio.Channel:
    """Return a channel of one connection to `address`."""
    return grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)
