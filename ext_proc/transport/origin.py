"""The processor's own origin: an HTTP/1.1 server for Envoy, where followers of a stream get it live.

A request names its flight in `x-outrigger-flight` (`NUMBER.usage` or `NUMBER.plain`). It is answered with
what has come of the stream so far and then with each part as it comes. A stream that breaks off is cut here,
too, without a made-up finish; one that broke off before anything came is called for anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import h11
from structlog.typing import FilteringBoundLogger

from ext_proc.answer_forms import EVENT_STREAM
from ext_proc.continuation import Caller, CallFailed
from ext_proc.contract import headers as names
from ext_proc.flights import Flight, Flights, StreamCut

READ_BYTES: Final = 65536
_HOP_HEADERS: Final = frozenset(("connection", "keep-alive", "transfer-encoding", "content-length"))


class OriginServer:
    """Serves the followers of `flights` on the Unix socket `socket`."""

    def __init__(self, flights: Flights, caller: Caller, socket: Path, log: FilteringBoundLogger) -> None:
        self._flights = flights
        self._caller = caller
        self._socket = socket
        self._log = log
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen. Raises OSError when the socket cannot be listened on."""
        self._socket.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._connected, str(self._socket), backlog=1024)

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
            await _Conversation(self._flights, self._caller, reader, writer).run()
        except (ConnectionError, h11.RemoteProtocolError) as error:
            self._log.debug("a follower's connection ended", error=type(error).__name__)
        finally:
            writer.close()


class _Conversation:
    """One connection of Envoy's."""

    def __init__(
        self, flights: Flights, caller: Caller, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._flights = flights
        self._caller = caller
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER)

    async def run(self) -> None:
        """Serve one request after the other."""
        while (request := await self._request()) is not None:
            whole = await self._answer(request)
            if not whole or self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _request(self) -> h11.Request | None:
        request = None
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(READ_BYTES))
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.EndOfMessage):
                return request
            elif not isinstance(event, h11.Data):
                return None  # the connection is closed

    async def _answer(self, request: h11.Request) -> bool:
        wanted = dict(request.headers).get(names.FLIGHT.encode(), b"").decode("ascii", "replace")
        number, _, form = wanted.partition(".")
        flight = self._flights.numbered(int(number)) if number.isdecimal() else None
        if flight is None or flight.live is None:
            await self._send_head(503, [("content-type", "text/plain")])
            await self._end()
            return True
        self._flights.board(flight)
        gone = asyncio.create_task(self._gone())
        serving = asyncio.create_task(self._serve(flight, usage=form == "usage"))
        try:
            await asyncio.wait((gone, serving), return_when=asyncio.FIRST_COMPLETED)
            return serving.result() if serving.done() else False
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

    async def _serve(self, flight: Flight, *, usage: bool) -> bool:
        live = flight.live
        if live is None:
            return False
        begun = False
        try:
            async for part in live.follow(usage=usage):
                if not begun:
                    begun = True
                    backend = flight.leader.response
                    told = backend.headers.get(names.BACKEND) if backend is not None else None
                    headers = [("content-type", EVENT_STREAM), *([(names.BACKEND, told)] if told else [])]
                    await self._send_head(200, headers)
                await self._send(part)
        except StreamCut:
            return False if begun else await self._alone(flight)
        if not begun:
            return await self._alone(flight)
        await self._end()
        return True

    async def _alone(self, flight: Flight) -> bool:
        """Make the call again for this follower: the flight ended before there was anything to follow."""
        try:
            async with self._caller.call(flight.leader) as reply:
                headers = [item for item in reply.headers.items() if item[0] not in _HOP_HEADERS]
                await self._send_head(reply.status, headers)
                parts: AsyncIterator[bytes] = reply.parts()
                async for part in parts:
                    await self._send(part)
        except CallFailed:
            return False
        await self._end()
        return True

    async def _send_head(self, status: int, headers: list[tuple[str, str]]) -> None:
        head = [*headers, ("transfer-encoding", "chunked")]
        self._write(h11.Response(status_code=status, headers=head))
        await self._writer.drain()

    async def _send(self, part: bytes) -> None:
        if part:
            self._write(h11.Data(data=part))
            await self._writer.drain()

    async def _end(self) -> None:
        self._write(h11.EndOfMessage())
        await self._writer.drain()

    def _write(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        data = self._http.send(event)
        if data:
            self._writer.write(data)
