"""Answers of our own that are streams, told piece by piece rather than at once (docs/policies/cache.md).

The caller is sent to the processor's own origin like a follower of a flight, and what it follows is the
answer. Knows nothing of where that came from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from ext_proc.contract import headers as names
from ext_proc.exchange import Answer, Exchange, Forward, Pairs
from ext_proc.flights import Flight, Flights, Follower, to_origin
from ext_proc.live_stream import LiveStream

AT_ONCE: Final = 100
"""How many answers a processor tells at a pace at the same time. Those beyond are told at once."""

# Envoy sets the stamps from what the exchange is described by, and the type is the origin's own.
_TOLD_OTHERWISE: Final = frozenset(("content-type", names.MODEL, names.VERSION, names.CACHE))
_EVENT_END: Final = b"\n\n"


class Pacing:
    """Tells answers at their pace, by the flights of this processor, at its origin's cluster `origin`."""

    def __init__(self, flights: Flights, origin: str, at_once: int = AT_ONCE) -> None:
        self._flights = flights
        self._origin = origin
        self._at_once = at_once
        self._telling: set[int] = set()

    def begin(self, exchange: Exchange, answer: Answer) -> Forward | None:
        """Begin to tell the stream in `answer`; None when so many are told that it has to go at once."""
        if len(self._telling) >= self._at_once:
            return None
        live = LiveStream(exchange.parsed.operation)
        flight = self._flights.tell(exchange, live, _told(answer))
        self._telling.add(flight.number)
        ticket = self._flights.expect(flight, Follower(exchange.head, (), usage=True))
        call = self._flights.carry_on(flight, self._tell(flight, live, answer))
        call.add_done_callback(lambda _: self._telling.discard(flight.number))
        return to_origin(self._origin, flight, ticket, answer.metadata)

    async def _tell(self, flight: Flight, live: LiveStream, answer: Answer) -> None:
        pause_s = answer.pace_ms / 1000
        try:
            for number, event in enumerate(_events(answer.body)):
                if number:
                    await asyncio.sleep(pause_s)
                live.append(event)
            live.end(whole=True)
        finally:
            self._flights.release(flight)


def _events(body: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(body):
        end = body.find(_EVENT_END, start)
        end = len(body) if end < 0 else end + len(_EVENT_END)
        yield body[start:end]
        start = end


def _told(answer: Answer) -> Pairs:
    return tuple((name, value) for name, value in answer.headers if name not in _TOLD_OTHERWISE)
