"""Equal requests in flight share one upstream call.

The first is the leader and goes up; the others wait for its answer, or follow its stream live, at the
processor's own origin (`transport/origin.py`). When the leader fails, they go on alone; when it leaves, a
call of the flight's own takes over (`continuation`).
"""

from __future__ import annotations

from typing import Final, Protocol

from ext_proc.answer_forms import JSON, Form, form_of, in_form
from ext_proc.contract import headers as names
from ext_proc.contract.routes import ORIGIN_ROUTE
from ext_proc.exchange import (
    Answer,
    Answered,
    CacheStatus,
    Exchange,
    Forward,
    Reason,
    describe,
    stamps,
)
from ext_proc.flights import Flight, Flights, Follow, Follower, Landed, Lead, LiveStream
from ext_proc.openai.chunks import NotJoinable
from ext_proc.pipeline import PassingStage
from ext_proc.question import directives, is_shareable, question_key

# A caller who wants a fresh answer, or leaves none behind, neither leads nor follows.
_APART: Final = frozenset(("no-store", "refresh"))


class Continuation(Protocol):
    """Who carries a flight on when its leader has left."""

    def take_over(self, flight: Flight) -> None:
        """Call the provider for `flight` in the background, until it lands or nobody waits."""
        ...


class Elsewhere(Protocol):
    """Knows of the flights of other processors."""

    async def lead(self, key: bytes) -> Lead | Follow | None:
        """Take the lead of `key` among all, or follow who has it; None when nobody can tell."""
        ...


class Coalesce(PassingStage):
    """Opens flights and lets others join them.

    Args:
        flights: the open ones.
        continuation: who carries a flight on without its leader.
        origin: the cluster of this processor's origin.
        elsewhere: the flights of other processors, None where nobody knows of them.
    """

    name = "coalesce"
    reasons = frozenset((Reason.SERVED_FROM_FLIGHT,))

    def __init__(
        self, flights: Flights, continuation: Continuation, origin: str, elsewhere: Elsewhere | None = None
    ) -> None:
        self._flights = flights
        self._elsewhere = elsewhere
        self._continuation = continuation
        self._origin = origin

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Open a flight, or wait for the answer of the one that is open; None goes up by itself."""
        policy = exchange.policy.coalesce
        if not policy.enabled or not is_shareable(exchange) or not _APART.isdisjoint(directives(exchange)):
            return None
        key = exchange.cache_key or question_key(exchange)
        flight = self._flights.find(key)
        if flight is None:
            flight = self._lead(exchange, key)
            # A stream is told live, which other processors' are not.
            if self._elsewhere is None or flight.live is not None:
                return None
            return await self._among_others(exchange, flight, self._elsewhere)
        if len(flight) >= policy.max_followers or not flight.joinable:
            return None
        if exchange.parsed.stream and flight.live is not None:
            return self._follow(exchange, flight)
        await exchange.park()
        landed = await self._flights.wait(flight)
        return self._landed(exchange, landed) if landed is not None else None

    async def _among_others(self, exchange: Exchange, flight: Flight, elsewhere: Elsewhere) -> Answer | None:
        """Lead for all processors, or wait for the one that does like everybody else on this one."""
        taken = await elsewhere.lead(flight.key)
        if taken is None:
            return None
        if isinstance(taken, Lead):
            if flight.done:
                taken.end(None)
            else:
                flight.closed = taken.end
            return None
        exchange.flight = 0
        within_s = exchange.backend.timeouts.request_ms / 1000 if exchange.backend is not None else 0.0
        self._flights.carry_on(flight, self._hear(flight, taken, within_s))
        await exchange.park()
        landed = await self._flights.wait(flight)
        return self._landed(exchange, landed) if landed is not None else None

    async def _hear(self, flight: Flight, leader: Follow, within_s: float) -> None:
        try:
            landed = await leader.hear(within_s)
            if landed is not None:
                self._flights.land(flight, landed)
        finally:
            self._flights.release(flight)  # no effect once it has landed

    def _lead(self, exchange: Exchange, key: bytes) -> Flight:
        live = None
        if exchange.parsed.stream:
            live = LiveStream(exchange.parsed.operation)
            exchange.wants_stream = True
        exchange.wants_body = True
        flight = self._flights.open(key, exchange, live)
        exchange.flight = flight.number
        return flight

    def _follow(self, exchange: Exchange, flight: Flight) -> Forward:
        # A Consumer's key is for us; any other the follower needs should it have to go on alone.
        remove = names.CREDENTIALS if exchange.consumer is not None else ()
        usage = form_of(exchange) is Form.STREAM_WITH_USAGE
        ticket = self._flights.expect(flight, Follower(exchange.head, remove, usage))
        exchange.cache_status = CacheStatus.COALESCED
        return Forward(
            ORIGIN_ROUTE,
            # The origin knows the question.
            body=b"",
            remove=names.CREDENTIALS,
            add=((names.ORIGIN, self._origin), (names.FLIGHT, f"{flight.number}.{ticket}")),
            metadata=describe(exchange),
        )

    def _landed(self, exchange: Exchange, landed: Landed) -> Answer | None:
        try:
            body, content_type = in_form(exchange, form_of(exchange), landed.body, landed.content_type)
        except NotJoinable:
            return None
        exchange.cache_status = CacheStatus.COALESCED
        told = ((names.BACKEND, landed.backend),) if landed.backend else ()
        return Answer(
            200,
            body,
            Reason.SERVED_FROM_FLIGHT,
            (
                ("content-type", content_type),
                *told,
                *stamps(exchange.model_name, exchange.version_name, CacheStatus.COALESCED),
            ),
            describe(exchange),
        )

    def _led(self, exchange: Exchange) -> Flight | None:
        return self._flights.numbered(exchange.flight) if exchange.flight else None

    def on_response_head(self, exchange: Exchange) -> Answer | None:
        """Send everybody on alone when the leader got no 200."""
        flight, response = self._led(exchange), exchange.response
        if flight is None or response is None:
            return None
        if response.status != 200:
            self._flights.release(flight)
        flight.backend = response.headers.get(names.BACKEND, "")
        return None

    def on_unread(self, exchange: Exchange) -> None:
        """Send everybody on alone when the leader's answer is none that we can read."""
        flight = self._led(exchange)
        if flight is not None:
            self._flights.release(flight)

    def on_chunk(self, exchange: Exchange, chunk: bytes, *, end: bool) -> None:
        """Pass a part of the leader's stream on to those who follow it."""
        flight = self._led(exchange)
        if flight is not None and flight.live is not None:
            flight.live.append(chunk)
            if end:
                flight.live.end(whole=True)

    def on_response(self, exchange: Exchange, answered: Answered) -> None:
        """Give everybody the leader's whole answer; one that is not whole sends them on alone."""
        flight = self._led(exchange)
        if flight is None:
            return
        if answered.head.status == 200 and answered.completion is not None and answered.completion.complete:
            self._flights.land(flight, landed_from(exchange, answered))
        else:
            self._flights.release(flight)

    def on_end(self, exchange: Exchange) -> None:
        """Carry the flight on without its leader, if it is still open and anybody waits."""
        flight = self._led(exchange)
        if flight is None or flight.done:
            return
        if exchange.forwarded is None or not flight.waited_for or (flight.live and flight.live.ended):
            self._flights.release(flight)
        else:
            exchange.carried_on = True
            self._continuation.take_over(flight)


def landed_from(exchange: Exchange, answered: Answered) -> Landed:
    """Return what a flight gives to all of the leader's answer."""
    headers = answered.head.headers
    content_type = JSON if exchange.recorded else headers.get("content-type", JSON)
    return Landed(answered.body, content_type, headers.get(names.BACKEND, ""))
