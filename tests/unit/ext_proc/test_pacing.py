"""Answers that are told piece by piece."""

from __future__ import annotations

import asyncio

import pytest

from ext_proc.exchange import Answer, Forward, Reason
from ext_proc.flights import Flight, Flights
from ext_proc.pacing import Pacing
from tests.unit.ext_proc.exchanges import HELLO, exchange
from tests.unit.ext_proc.test_flights import DONE, Clock, event, settled

EVENTS = [event("a"), event("b"), DONE]
HEADERS = (
    ("content-type", "text/event-stream"),
    ("age", "3"),
    ("x-outrigger-cache", "hit"),
    ("x-outrigger-model", "m"),
    ("x-outrigger-version", "v1"),
    ("x-ratelimit-remaining-requests", "7"),
)


def told(body: bytes = b"".join(EVENTS)) -> Answer:
    """Return an answer whose events are 20 ms apart."""
    return Answer(200, body, Reason.SERVED_FROM_CACHE, HEADERS, (("cache", "hit"),), pace_ms=20)


def begun(flights: Flights, pacing: Pacing, answer: Answer | None = None) -> tuple[Flight, int]:
    """Begin to tell an answer; return its flight and the caller's ticket."""
    forward = pacing.begin(exchange(document={**HELLO, "stream": True}), answer or told())
    assert isinstance(forward, Forward)
    assert (forward.route, forward.body, forward.metadata) == ("origin", b"", (("cache", "hit"),))
    added = dict(forward.add)
    assert added["x-outrigger-origin"] == "cluster"
    number, ticket = added["x-outrigger-flight"].split(".")
    flight = flights.numbered(int(number))
    assert flight is not None
    return flight, int(ticket)


@pytest.mark.parametrize("unended", [b"", b"data: more"])
def test_each_event_comes_at_its_time(unended: bytes) -> None:
    """The first at once, with the headers that nobody else sets; afterwards nothing is left of it."""
    heard: list[tuple[float, bytes]] = []

    async def follow() -> None:
        flights = Flights()
        flight, ticket = begun(flights, Pacing(flights, "cluster"), told(b"".join(EVENTS) + unended))
        assert flight.told == (("age", "3"), ("x-ratelimit-remaining-requests", "7"))
        assert flights.find(flight.key) is None
        follower = flights.board(flight, ticket)
        assert follower is not None
        assert flight.live is not None
        async for piece in flight.live.follow(usage=follower.usage):
            heard.append((clock.now, piece))
        flights.disembark(flight)
        assert (len(flights), flights.numbered(flight.number)) == (0, None)

    clock = Clock()
    try:
        following = clock.create_task(follow())
        clock.settle()
        while not following.done():
            clock.now = round(clock.now + 0.01, 2)
            clock.settle()
    finally:
        clock.close()
    expected = list(zip((0.0, 0.02, 0.04), EVENTS, strict=True))
    assert heard == [*expected, *([(0.06, unended)] if unended else [])]


async def test_a_caller_that_leaves_ends_it() -> None:
    """At once, and makes room for another."""
    flights = Flights()
    pacing = Pacing(flights, "cluster", at_once=1)
    flight, ticket = begun(flights, pacing)
    flights.board(flight, ticket)
    assert pacing.begin(exchange(document={**HELLO, "stream": True}), told()) is None
    await settled()
    flights.disembark(flight)
    await settled()
    assert flight.continuation is not None
    assert flight.continuation.cancelled()
    assert flights.numbered(flight.number) is None
    begun(flights, pacing)
    await flights.close()


async def test_one_that_leaves_before_the_first_step_makes_room_too() -> None:
    """And one that never comes holds nothing when it is too late."""
    flights = Flights()
    pacing = Pacing(flights, "cluster", at_once=1)
    flight, ticket = begun(flights, pacing)
    flights.board(flight, ticket)
    flights.disembark(flight)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    begun(flights, pacing)
    await flights.close()
