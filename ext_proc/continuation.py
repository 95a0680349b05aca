"""What carries a flight on when its leader has left: a call of its own, through Envoy like any other.

Whoever waits for the whole answer gets it; whoever follows the stream is told the rest, each piece once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from ext_proc.answer_forms import JSON, READ_AT_MOST_BYTES, STREAM_TYPE, is_readable
from ext_proc.contract import headers as names
from ext_proc.exchange import Answered, Exchange, Forward, RequestHead, ResponseHead
from ext_proc.flights import Flight, Flights, Landed
from ext_proc.live_stream import LiveStream, StreamCut
from ext_proc.openai.recording import StreamRecorder
from ext_proc.openai.replays import replay
from ext_proc.openai.responses import parse_completion
from ext_proc.openai.splice import NotSpliceable, Splice


class CallFailed(Exception):
    """The call could not be made, or broke off."""


class Reply(Protocol):
    """A response whose body is still to be read. Names in `headers` are lower-case; `raw` has them all."""

    status: int
    headers: Mapping[str, str]
    raw: Sequence[tuple[bytes, bytes]]

    def parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes. Raises CallFailed when it breaks off."""
        ...


class Caller(Protocol):
    """Who calls providers for the processor itself."""

    def call(self, head: RequestHead, forward: Forward, body: bytes) -> AbstractAsyncContextManager[Reply]:
        """Send the request `head` as `forward` says, with `body` if that has none; leaving ends the call.

        Raises:
            CallFailed: there was no answer at all.
        """
        ...


async def read_answer(exchange: Exchange, reply: Reply) -> Answered:
    """Read a whole answer to the exchange's question, a stream joined to one.

    Raises:
        CallFailed: it is an error, is not whole, or too long.
    """
    if not is_readable(reply.status, reply.headers):
        raise CallFailed(f"the answer is none to share (status {reply.status})")
    operation = exchange.parsed.operation
    if reply.headers.get("content-type", "").startswith(STREAM_TYPE):
        recorder = StreamRecorder(operation, hides_usage=False, max_bytes=READ_AT_MOST_BYTES)
        async for part in reply.parts():
            recorder.feed(part, end=False)
        recorder.feed(b"", end=True)
        if not recorder.complete:
            raise CallFailed("the stream is not whole")
        exchange.recorded = True
        body = recorder.answer()
    else:
        body = await whole_body(reply)
    completion = parse_completion(operation, body)
    if completion is None or not completion.complete:
        raise CallFailed("the answer is not whole")
    return Answered(ResponseHead(reply.status, reply.headers), body, completion)


async def whole_body(reply: Reply) -> bytes:
    """Read the body. Raises CallFailed: it broke off, or is longer than what may be held."""
    body = bytearray()
    async for part in reply.parts():
        body += part
        if len(body) > READ_AT_MOST_BYTES:
            raise CallFailed("the answer is longer than what may be held")
    return bytes(body)


class FlightContinuation:
    """Carries flights on.

    Args:
        flights: the open ones.
        caller: who makes the call.
        keep: told of the whole answer, in the name of the leader's exchange.
        log: where a call that fails is told.
        ended: told of the leader's exchange when the call is over, whether it was answered or not.
    """

    def __init__(
        self,
        flights: Flights,
        caller: Caller,
        keep: Callable[[Exchange, Answered], None],
        log: FilteringBoundLogger,
        ended: Callable[[Exchange], None],
    ) -> None:
        self._flights = flights
        self._caller = caller
        self._keep = keep
        self._log = log
        self._ended = ended

    def take_over(self, flight: Flight) -> None:
        """Call the provider for `flight` in the background, until it lands or nobody waits."""
        leader = flight.leader
        call = self._flights.carry_on(flight, self._carry(flight))
        # Not at the end of the call's own work: one that is cancelled before its first step does nothing.
        call.add_done_callback(lambda _: self._ended(leader))

    async def _carry(self, flight: Flight) -> None:
        leader = flight.leader
        try:
            if leader.forwarded is None:
                raise CallFailed("it was never sent")
            async with self._caller.call(leader.head, leader.forwarded, leader.body) as reply:
                await self._read(flight, reply)
        except CallFailed as error:
            self._log.info("a flight without its leader ends", reason=str(error))
        except Exception as error:
            self._log.error("a flight without its leader failed", error=type(error).__name__, exc_info=True)
        finally:
            self._flights.release(flight)  # no effect once it has landed

    async def _read(self, flight: Flight, reply: Reply) -> None:
        if not is_readable(reply.status, reply.headers):
            raise CallFailed(f"the answer is none to share (status {reply.status})")
        flight.backend = flight.backend or reply.headers.get(names.BACKEND, "")
        kind = reply.headers.get("content-type", "")
        if flight.live is not None and kind.startswith(STREAM_TYPE):
            await self._read_stream(flight, flight.live, reply)
            return
        self._landed(flight, reply, await whole_body(reply), kind)

    async def _read_stream(self, flight: Flight, live: LiveStream, reply: Reply) -> None:
        """Tell the followers the rest. Where there is none, read on for those who want the whole answer."""
        recorder = StreamRecorder(
            flight.leader.parsed.operation, hides_usage=False, max_bytes=READ_AT_MOST_BYTES
        )
        rest = _Rest(live)
        async for part in reply.parts():
            rest.tell(part)
            recorder.feed(part, end=False)
            if live.ended and not flight.waiters:
                raise CallFailed("the second stream does not go on where the first one ended")
        recorder.feed(b"", end=True)
        live.end(whole=True)
        if recorder.complete:
            flight.leader.recorded = True
            self._landed(flight, reply, recorder.answer(), JSON)

    def _landed(self, flight: Flight, reply: Reply, body: bytes, content_type: str) -> None:
        operation, live = flight.leader.parsed.operation, flight.live
        completion = parse_completion(operation, body)
        if completion is None or not completion.complete:
            raise CallFailed("the answer is not whole")
        if live is not None and live.begun and not live.ended:
            # A stream had begun, and the second answer is in one piece.
            _Rest(live).tell(b"".join(replay(operation, body, include_usage=True)))
        self._keep(flight.leader, Answered(ResponseHead(200, reply.headers), body, completion))
        self._flights.land(flight, Landed(body, content_type or JSON, flight.backend))


class _Rest:
    """What followers have not heard yet of a stream that is told again. They are cut where it differs."""

    def __init__(self, live: LiveStream) -> None:
        self._live = live
        self._splice: Splice | None = None
        live.broken_off()
        if live.begun and not live.ended:
            try:
                self._splice = Splice(live.so_far())
            except (NotSpliceable, StreamCut):
                live.end(whole=False)

    def tell(self, part: bytes) -> None:
        """Take a part of the second stream."""
        try:
            self._live.append(part if self._splice is None else self._splice.feed(part))
        except NotSpliceable:
            self._live.end(whole=False)
