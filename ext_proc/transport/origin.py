"""The processor's own origin: an HTTP/1.1 server for Envoy, where followers of a stream get it live.

A request names its flight and itself in `x-outrigger-flight` (`FLIGHT.TICKET`). It is answered with what has
come of the stream so far and then with each part as it comes. A stream that breaks off is cut here, too,
without a made-up finish. When the flight ended before anything came, the follower's own call is made, with
its own headers; whom nobody expects is hung up on, and Envoy says 502.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

import h11
from structlog.typing import FilteringBoundLogger

from ext_proc.answer_forms import EVENT_STREAM, READ_AT_MOST_BYTES, STREAM_TYPE, is_readable
from ext_proc.continuation import Caller, CallFailed, Reply
from ext_proc.contract import headers as names
from ext_proc.exchange import Exchange, Pairs
from ext_proc.flights import Flight, Flights, Follower
from ext_proc.live_stream import LiveStream, StreamCut
from ext_proc.openai.recording import StreamRecorder

READ_BYTES: Final = 65536
# A connect to a Unix socket whose queue is full fails at once, and thousands may come together.
BACKLOG: Final = 16_384
# A turn of the event loop then takes some milliseconds.
TURNS: Final = 32
_HOP_HEADERS: Final = frozenset((b"connection", b"keep-alive", b"transfer-encoding", b"content-length"))


class _Turns:
    """Lets a few conversations at a time do what costs most.

    Thousands may arrive at one moment: in one go they would keep the event loop from Envoy's health checks
    for so long that it takes the processor for dead.
    """

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(TURNS)

    async def take(self) -> None:
        """Wait for a turn of the event loop in which there is a place."""
        async with self._places:
            await asyncio.sleep(0)


class OriginServer:
    """Serves the followers of `flights` on the Unix socket `socket`."""

    def __init__(self, flights: Flights, caller: Caller, socket: Path, log: FilteringBoundLogger) -> None:
        self._flights = flights
        self._caller = caller
        self._socket = socket
        self._log = log
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._turns = _Turns()

    async def start(self) -> None:
        """Listen. Raises OSError when the socket cannot be listened on."""
        self._socket.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._connected, str(self._socket), backlog=BACKLOG)

    async def stop(self) -> None:
        """End, with whatever runs."""
        if self._server is not None:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._socket.unlink(missing_ok=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        try:
            await _Conversation(self._flights, self._caller, self._turns, reader, writer).run()
        except asyncio.CancelledError:
            # `stop` says so. Streams of asyncio would write a traceback for a task that ends otherwise.
            self._log.debug("a follower's connection is closed", error="stopping")
        except (CallFailed, ConnectionError, StreamCut) as error:
            self._log.debug("a follower's connection ended", error=type(error).__name__)
        except Exception as error:
            self._log.error("a follower's connection failed", error=type(error).__name__, exc_info=True)
        finally:
            writer.close()


class _Conversation:
    """One connection of Envoy's."""

    def __init__(
        self,
        flights: Flights,
        caller: Caller,
        turns: _Turns,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._flights = flights
        self._caller = caller
        self._turns = turns
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER)
        self._unsent = b""

    async def run(self) -> None:
        """Serve one request after the other, until Envoy hangs up or nothing is left to be said in order.

        Raises:
            StreamCut, CallFailed, ConnectionError: an answer broke off.
        """
        while (request := await self._request()) is not None:
            if not await self._answer(request):
                return
            if self._http.their_state is not h11.DONE:
                return
            unread, _ = self._http.trailing_data
            self._http = h11.Connection(h11.SERVER)
            if unread:
                self._http.receive_data(unread)

    async def _request(self) -> h11.Request | None:
        request = None
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                data = await self._reader.read(READ_BYTES)
                await self._turns.take()
                self._http.receive_data(data)
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.EndOfMessage):
                return request
            elif not isinstance(event, h11.Data):
                return None  # the connection is closed

    async def _answer(self, request: h11.Request) -> bool:
        """Serve a follower to the end of its stream; False when there is none to serve any more."""
        named = dict(request.headers).get(names.FLIGHT.encode(), b"").decode("ascii", "replace")
        number, _, ticket = named.partition(".")
        if not number.isdecimal() or not ticket.isdecimal():
            return False
        flight = self._flights.numbered(int(number))
        follower = self._flights.board(flight, int(ticket)) if flight is not None else None
        if flight is None or flight.live is None or follower is None:
            return False
        gone = asyncio.create_task(self._gone())
        serving = asyncio.create_task(self._serve(flight, flight.live, follower))
        try:
            await asyncio.wait((gone, serving), return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
            return serving.done()
        finally:
            for task in (gone, serving):
                task.cancel()
            await asyncio.gather(gone, serving, return_exceptions=True)
            self._flights.disembark(flight)

    async def _gone(self) -> None:
        """Return when Envoy has closed the connection; meanwhile it sends nothing else."""
        data = await self._reader.read(READ_BYTES)
        if data:
            self._http.receive_data(data)
            await asyncio.Event().wait()

    async def _serve(self, flight: Flight, live: LiveStream, follower: Follower) -> None:
        begun = False
        try:
            async for piece in live.follow(usage=follower.usage):
                # Written as it stands: hundreds are told the same at one moment, by this one thread.
                head = b"" if begun else _stream_head(flight.backend, flight.told)
                begun = True
                self._writer.write(b"%b%x\r\n%b\r\n" % (head, len(piece), piece))
                await self._writer.drain()
        except StreamCut:
            if begun:
                raise
        if begun:
            self._writer.write(b"0\r\n\r\n")
            await self._writer.drain()
        else:
            await self._alone(flight.leader, follower)

    async def _alone(self, leader: Exchange, follower: Follower) -> None:
        """Make the follower's own call: the question is the leader's, who asks is not."""
        if leader.forwarded is None or not leader.parsed.stream:
            await self._refused(leader)
            return
        forward = replace(leader.forwarded, remove=follower.remove)
        async with self._caller.call(follower.head, forward, leader.body) as reply:
            headers = [(name, value) for name, value in reply.raw if name.lower() not in _HOP_HEADERS]
            self._begin(reply.status, headers)
            await self._flush()
            recorder = _usage_filter(leader, follower, reply)
            async for part in reply.parts():
                visible = recorder.feed(part, end=False) if recorder is not None else None
                await self._send(part if visible is None else visible)
            if recorder is not None:
                await self._send(recorder.feed(b"", end=True) or b"")
        await self._end()

    async def _refused(self, leader: Exchange) -> None:
        """Give the follower what its leader was refused with."""
        if leader.metered is None or leader.metered.refused is None:
            raise CallFailed("the question was never sent")
        status, headers, body = leader.metered.refused
        self._begin(status, [(name.encode(), value.encode()) for name, value in headers])
        await self._send(body)
        await self._end()

    def _begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Make the head; it goes out with what comes next."""
        self._say(h11.Response(status_code=status, headers=[*headers, (b"transfer-encoding", b"chunked")]))

    async def _send(self, part: bytes) -> None:
        if part:
            self._say(h11.Data(data=part))
            await self._flush()

    async def _end(self) -> None:
        self._say(h11.EndOfMessage())
        await self._flush()

    def _say(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        self._unsent += self._http.send(event) or b""

    async def _flush(self) -> None:
        unsent, self._unsent = self._unsent, b""
        self._writer.write(unsent)
        await self._writer.drain()


@lru_cache(maxsize=64)
def _stream_head(backend: str, told: Pairs) -> bytes:
    """Return how the answer to a follower begins."""
    from_whom = ((names.BACKEND, backend),) if backend else ()
    pairs = (("content-type", EVENT_STREAM), *from_whom, *told, ("transfer-encoding", "chunked"))
    lines = ("HTTP/1.1 200 OK", *(f"{name}: {value}" for name, value in pairs))
    return "\r\n".join((*lines, "", "")).encode()


def _usage_filter(leader: Exchange, follower: Follower, reply: Reply) -> StreamRecorder | None:
    """Return what takes the usage out again that only the mesh has asked for."""
    kind = reply.headers.get("content-type", "")
    if follower.usage or not kind.startswith(STREAM_TYPE) or not is_readable(reply.status, reply.headers):
        return None
    return StreamRecorder(leader.parsed.operation, hides_usage=True, max_bytes=READ_AT_MOST_BYTES)
