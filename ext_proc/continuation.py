"""What carries a flight on when its leader has left: a call of its own, through Envoy like any other.

Whoever waits for the whole answer gets it; whoever follows the stream is told the rest, each piece once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from ext_proc.exchange import Answered, Exchange, ResponseHead
from ext_proc.flights import Flight, Flights, Landed
from ext_proc.openai.recording import StreamRecorder
from ext_proc.openai.responses import parse_completion
from ext_proc.openai.splice import NotSpliceable, Splice

READ_AT_MOST_BYTES = 24 * 1024 * 1024


class CallFailed(Exception):
    """The call could not be made, or broke off."""


class Reply(Protocol):
    """A response whose body is still to be read."""

    status: int
    headers: Mapping[str, str]

    def parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes. Raises CallFailed when it breaks off."""
        ...


class Caller(Protocol):
    """Who calls providers for the processor itself."""

    def call(self, exchange: Exchange) -> AbstractAsyncContextManager[Reply]:
        """Send what `exchange` was forwarded as once more; leaving the context ends the call.

        Raises:
            CallFailed: there was no answer at all.
        """
        ...


class FlightContinuation:
    """Carries flights on.

    Args:
        flights: the open ones.
        caller: who makes the call.
        keep: told of the whole answer, in the name of the leader's exchange.
        log: where a call that fails is told.
    """

    def __init__(
        self,
        flights: Flights,
        caller: Caller,
        keep: Callable[[Exchange, Answered], None],
        log: FilteringBoundLogger,
    ) -> None:
        self._flights = flights
        self._caller = caller
        self._keep = keep
        self._log = log

    def take_over(self, flight: Flight) -> None:
        """Call the provider for `flight` in the background, until it lands or nobody waits."""
        flight.continuation = asyncio.get_running_loop().create_task(self._carry(flight))

    async def _carry(self, flight: Flight) -> None:
        try:
            async with self._caller.call(flight.leader) as reply:
                await self._read(flight, reply)
        except (CallFailed, NotSpliceable) as error:
            self._log.info("a flight without its leader ends", reason=str(error))
        finally:
            self._flights.release(flight)  # no effect once it has landed

    async def _read(self, flight: Flight, reply: Reply) -> None:
        kind = reply.headers.get("content-type", "")
        if reply.status != 200:
            return
        if flight.live is not None and kind.startswith("text/event-stream"):
            await self._read_stream(flight, reply)
            return
        body = bytearray()
        async for part in reply.parts():
            body += part
            if len(body) > READ_AT_MOST_BYTES:
                return
        self._landed(flight, reply, bytes(body), kind)

    async def _read_stream(self, flight: Flight, reply: Reply) -> None:
        live, leader = flight.live, flight.leader
        if live is None:
            return
        splice = Splice(live.so_far())
        recorder = StreamRecorder(leader.parsed.operation, hides_usage=False, max_bytes=READ_AT_MOST_BYTES)
        async for part in reply.parts():
            live.append(splice.feed(part))
            recorder.feed(part, end=False)
        recorder.feed(b"", end=True)
        live.end(whole=True)
        if recorder.complete:
            leader.recorded = True
            self._landed(flight, reply, recorder.answer(), "application/json")

    def _landed(self, flight: Flight, reply: Reply, body: bytes, content_type: str) -> None:
        completion = parse_completion(flight.leader.parsed.operation, body)
        if completion is None or not completion.complete:
            return
        self._keep(flight.leader, Answered(ResponseHead(200, reply.headers), body, completion))
        backend = reply.headers.get("x-outrigger-backend", "")
        self._flights.land(flight, Landed(body, content_type or "application/json", backend))
