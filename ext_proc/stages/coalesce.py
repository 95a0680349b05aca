"""Equal requests in flight share one upstream call.

The first is the leader and goes up; the others wait for its answer, or follow its stream live, at the
processor's own origin (`transport/origin.py`). When the leader fails, they go on alone; when it leaves, a
call of the flight's own takes over (`continuation`), or one of those who wait if nothing was sent yet.
Whoever comes after a purge joins no flight from before it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final, Protocol

from ext_proc.answer_forms import JSON, Form, form_of, in_form
from ext_proc.answers import Clocks
from ext_proc.contract import headers as names
from ext_proc.contract.snapshot import Purge
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
from ext_proc.flights import Call, Flight, Flights, Follow, Follower, Landed, Lead, to_origin
from ext_proc.live_stream import LiveStream
from ext_proc.openai.deltas import NotJoinable
from ext_proc.pipeline import PassingStage
from ext_proc.question import directives, is_shareable, partition, question_key
from ext_proc.tiers import is_meant

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
        clocks: the time of day and this process's own, now; the latter is the cache's.
        elsewhere: the flights of other processors, None where nobody knows of them.
        purges: what is void, by the newest snapshot.
    """

    name = "coalesce"
    reasons = frozenset((Reason.SERVED_FROM_FLIGHT,))

    def __init__(
        self,
        flights: Flights,
        continuation: Continuation,
        origin: str,
        *,
        clocks: Callable[[], Clocks],
        elsewhere: Elsewhere | None = None,
        purges: Callable[[], Sequence[Purge]] = tuple,
    ) -> None:
        self._flights = flights
        self._clocks = clocks
        self._elsewhere = elsewhere
        self._purges = purges
        self._continuation = continuation
        self._origin = origin

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Open a flight, or wait for the answer of the one that is open; None goes up by itself."""
        policy = exchange.policy.coalesce
        if not policy.enabled or not is_shareable(exchange) or not _APART.isdisjoint(directives(exchange)):
            return None
        key = exchange.cache_key or question_key(exchange)
        purged_s = self._purged_s(exchange, key)
        flight = self._flights.find(key)
        if flight is None or (purged_s is not None and self._asked_s(flight.leader) <= purged_s):
            flight = self._open(exchange, key)
            # A stream is told live, which other processors' are not.
            if self._elsewhere is None or flight.live is not None:
                return None
            return await self._among_others(exchange, flight, self._elsewhere, purged_s)
        if len(flight) >= policy.max_followers or not flight.joinable:
            return None
        # Of a leader that wants JSON nothing is told live, though the one before it had streamed.
        if exchange.parsed.stream and flight.live is not None and flight.leader.parsed.stream:
            return self._follow(exchange, flight)
        return await self._wait(exchange, flight)

    async def _wait(self, exchange: Exchange, flight: Flight) -> Answer | None:
        await exchange.park()
        word = await self._flights.wait(flight)
        if word is Call.LEAD:
            self._lead(exchange, flight)
            return None
        return self._landed(exchange, word) if word is not None else None

    async def _among_others(
        self, exchange: Exchange, flight: Flight, elsewhere: Elsewhere, purged_s: float | None
    ) -> Answer | None:
        """Lead for all processors, or wait for the one that does like everybody else on this one."""
        taken = await elsewhere.lead(_lead_key(flight.key, purged_s))
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
        return await self._wait(exchange, flight)

    async def _hear(self, flight: Flight, leader: Follow, within_s: float) -> None:
        landed, heard = None, False
        try:
            landed = await leader.hear(within_s)
            heard = True
        finally:
            if not heard:
                self._flights.release(flight)
        if landed is not None:
            self._flights.land(flight, landed)
        else:
            # One for all who wait here, not each: the others may be as many on every processor.
            self._flights.hand_on(flight)

    def _open(self, exchange: Exchange, key: bytes) -> Flight:
        if exchange.cache_key is None:
            exchange.asked_at = self._clocks().own
        flight = self._flights.open(key, exchange, None)
        self._lead(exchange, flight)
        return flight

    def _lead(self, exchange: Exchange, flight: Flight) -> None:
        """Make the exchange the flight's leader."""
        if exchange.parsed.stream:
            exchange.wants_stream = True
            if flight.live is None:
                flight.live = LiveStream(exchange.parsed.operation)
        exchange.wants_body = True
        exchange.flight = flight.number
        flight.leader = exchange

    def _asked_s(self, leader: Exchange) -> float:
        """Return when the leader asked, in seconds since the epoch."""
        clocks = self._clocks()
        return leader.asked_at - clocks.own + clocks.wall

    def _purged_s(self, exchange: Exchange, key: bytes) -> float | None:
        """Return when answers to this question were voided last, in seconds since the epoch."""
        purges = self._purges()
        if not purges:
            return None
        asked = (key, exchange.model_name, exchange.version_name, partition(exchange))
        return max((purge.at_s for purge in purges if is_meant(purge, *asked)), default=None)

    def _follow(self, exchange: Exchange, flight: Flight) -> Forward:
        # A Consumer's key is for us; any other the follower needs should it have to go on alone.
        remove = names.CREDENTIALS if exchange.consumer is not None else ()
        usage = form_of(exchange) is Form.STREAM_WITH_USAGE
        ticket = self._flights.expect(flight, Follower(exchange.head, remove, usage))
        exchange.cache_status = CacheStatus.COALESCED
        forward = to_origin(self._origin, flight, ticket, describe(exchange))
        # The answer is a turn of the follower's session, or is told with the follower's own values.
        seen = exchange.conversation is not None or exchange.masks is not None
        return replace(forward, wants_response=True) if seen else forward

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
        """Carry the flight on without its leader, if it is still open and anybody waits.

        One that was never sent, having left early or been answered by a later stage, hands it on.
        """
        flight = self._led(exchange)
        if flight is None or flight.done:
            return
        if exchange.forwarded is None:
            exchange.flight = 0
            self._flights.hand_on(flight)
        elif not flight.waited_for or (flight.live and flight.live.ended):
            self._flights.release(flight)
        else:
            exchange.carried_on = True
            self._continuation.take_over(flight)


def _lead_key(key: bytes, purged_s: float | None) -> bytes:
    """Return the key by which processors agree on a leader: another one after each purge."""
    if purged_s is None:
        return key
    return blake2b(key + struct.pack("<d", purged_s), digest_size=32).digest()


def landed_from(exchange: Exchange, answered: Answered) -> Landed:
    """Return what a flight gives to all of the leader's answer."""
    headers = answered.head.headers
    content_type = JSON if exchange.recorded else headers.get("content-type", JSON)
    return Landed(answered.body, content_type, headers.get(names.BACKEND, ""))
