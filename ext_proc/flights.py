"""Flights: one upstream call that several exchanges wait for, its leader's (docs/policies/coalesce.md).

A flight is open from its leader's request to the end of the answer. Whoever waits for the whole answer gets
it when it lands; whoever follows the stream reads what has come so far and then each part as it comes. When
the leader leaves, the flight goes on by a call of its own as long as anybody waits (`continuation`); when
it leaves before it was sent, the one that has waited longest is promoted to lead.

Invariants: a waiter is woken exactly once, by the answer, the word that there is none, or the lead; a flight
has one leader, or one that is on its way to lead, or a call in its place; a follower gets each part once, and
an end only if the provider said so; nothing is left of a flight that nobody waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Any, Final, Literal, TypeAlias

from ext_proc.contract import headers as names
from ext_proc.contract.routes import ORIGIN_ROUTE
from ext_proc.exchange import Exchange, Forward, Metadata, Pairs, RequestHead
from ext_proc.live_stream import LiveStream
from ext_proc.openai.replays import replay

# How long a follower of a stream may be on its way through Envoy: as long as Envoy waits for a decision.
BOARDING_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Landed:
    """The whole answer of a flight, as JSON, and the Backend that gave it."""

    body: bytes
    content_type: str
    backend: str = ""


class Call(Enum):
    """What a waiter may be told in the place of an answer."""

    LEAD = "lead"
    """It is to go up itself, for all the others."""


Word: TypeAlias = Landed | Literal[Call.LEAD] | None
"""What ends a wait. None: there will be no answer to share."""


@dataclass(frozen=True, slots=True)
class Lead:
    """This processor leads a question among all. `end` gives that up, with the answer if one came."""

    end: Callable[[Landed | None], None]


@dataclass(frozen=True, slots=True)
class Follow:
    """Another processor leads. `hear` waits so many seconds for its answer; None: it has none."""

    hear: Callable[[float], Awaitable[Landed | None]]


@dataclass(frozen=True, slots=True)
class Follower:
    """Who follows a stream: its own request, which of its headers no provider may see, and in which form."""

    head: RequestHead
    remove: tuple[str, ...]
    usage: bool


@dataclass(slots=True, eq=False)
class Flight:
    """One upstream call and who waits for it. `backend` is known once the answer has begun.

    `told` are headers of the answer that followers of its stream get, too.
    """

    key: bytes
    number: int
    leader: Exchange
    live: LiveStream | None
    backend: str = ""
    told: Pairs = ()
    # In the order in which they came.
    waiters: dict[asyncio.Future[Word], None] = field(default_factory=dict)
    followers: int = 0
    # Followers that are on their way through Envoy, by their ticket; with a timer as long as they count.
    boarding: dict[int, tuple[Follower, asyncio.TimerHandle | None]] = field(default_factory=dict)
    done: bool = False
    landed: Landed | None = None
    # What carries it on without the leader: a call of its own, or another processor's.
    continuation: asyncio.Task[None] | None = None
    # Told once when it ends, of the answer or that there is none.
    closed: Callable[[Landed | None], None] | None = None

    @property
    def waited_for(self) -> bool:
        """Whether anybody but the leader wants the answer."""
        return bool(self.waiters) or self.followers > 0

    @property
    def joinable(self) -> bool:
        """Whether somebody who comes now can still get all of the answer."""
        return not self.done and (self.live is None or (self.live.intact and not self.live.ended))

    def __len__(self) -> int:
        return len(self.waiters) + self.followers


class Flights:
    """The open flights of one processor, by the question that they ask."""

    def __init__(self) -> None:
        self._open: dict[bytes, Flight] = {}
        self._by_number: dict[int, Flight] = {}
        self._numbers = count(1)
        self._calls: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    def find(self, key: bytes) -> Flight | None:
        """Return the open flight that asks `key`."""
        return self._open.get(key)

    def numbered(self, number: int) -> Flight | None:
        """Return the flight of that number, also when it has just landed; None when nobody is left of it."""
        return self._by_number.get(number)

    def open(self, key: bytes, leader: Exchange, live: LiveStream | None) -> Flight:
        """Open a flight for `leader`."""
        flight = Flight(key, next(self._numbers), leader, live)
        self._open[key] = self._by_number[flight.number] = flight
        return flight

    def tell(self, exchange: Exchange, live: LiveStream, told: Pairs) -> Flight:
        """Open a flight for a stream that is told to `exchange` alone; nobody else finds it."""
        flight = Flight(b"", next(self._numbers), exchange, live, told=told)
        self._by_number[flight.number] = flight
        return flight

    def land(self, flight: Flight, landed: Landed) -> None:
        """Give everybody the answer.

        Raises:
            NotJoinable: it can be no stream, though it was asked for as one.
        """
        if flight.live is not None:
            if not flight.live.begun:
                # A provider that was asked for a stream may answer in one piece.
                operation = flight.leader.parsed.operation
                flight.live.append(b"".join(replay(operation, landed.body, include_usage=True)))
            flight.live.end(whole=True)
        self._close(flight, landed)

    def release(self, flight: Flight) -> None:
        """Send everybody on alone: there will be no answer to share."""
        self._close(flight, None)
        if flight.live is not None:
            flight.live.end(whole=False)

    async def wait(self, flight: Flight) -> Word:
        """Wait for the answer; None sends the exchange on alone, Call.LEAD as the flight's leader."""
        if flight.done:
            return flight.landed
        waiter: asyncio.Future[Word] = asyncio.get_running_loop().create_future()
        flight.waiters[waiter] = None
        try:
            return await waiter
        except asyncio.CancelledError:
            # It may leave just when it was told to lead.
            if waiter.done() and not waiter.cancelled() and waiter.result() is Call.LEAD:
                self.hand_on(flight)
            raise
        finally:
            flight.waiters.pop(waiter, None)
            self.left(flight)

    def promote(self, flight: Flight) -> bool:
        """Tell the one that has waited longest to lead; False when nobody waits who could.

        The flight is without a leader or a call then, and the one who wakes must set itself as such.
        """
        flight.continuation = None
        waiter = next((one for one in flight.waiters if not one.done()), None)
        if flight.done or waiter is None:
            return False
        # It counts as a leader from now on.
        del flight.waiters[waiter]
        waiter.set_result(Call.LEAD)
        return True

    def hand_on(self, flight: Flight) -> None:
        """Promote somebody in the place of a leader that was never sent; without anybody, the flight ends."""
        if not self.promote(flight):
            self.release(flight)

    def expect(self, flight: Flight, follower: Follower) -> int:
        """Count a follower of the stream in who is on the way; it counts no more once it is late.

        Returns:
            The ticket by which it boards.
        """
        ticket = next(self._numbers)
        flight.followers += 1
        late = asyncio.get_running_loop().call_later(BOARDING_S, self._late, flight, ticket)
        flight.boarding[ticket] = (follower, late)
        return ticket

    def board(self, flight: Flight, ticket: int) -> Follower | None:
        """Return who has come, None when nobody is expected; `disembark` must be told when it has gone."""
        follower, late = flight.boarding.pop(ticket, (None, None))
        if late is not None:
            late.cancel()
        elif follower is not None:
            flight.followers += 1
        return follower

    def _late(self, flight: Flight, ticket: int) -> None:
        follower, _ = flight.boarding[ticket]
        flight.boarding[ticket] = (follower, None)
        self.disembark(flight)

    def disembark(self, flight: Flight) -> None:
        """Count a follower out."""
        flight.followers -= 1
        self.left(flight)

    def carry_on(self, flight: Flight, call: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `call` in the leader's place; it is cancelled when nobody waits any more."""
        flight.continuation = task = asyncio.get_running_loop().create_task(call)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return task

    async def close(self) -> None:
        """End every call that was made in a leader's place."""
        calls = list(self._calls)
        for task in calls:
            task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    def left(self, flight: Flight) -> None:
        """Take notice that somebody no longer waits: the last one ends what was only for the others."""
        if flight.waited_for:
            return
        if flight.done:
            self._by_number.pop(flight.number, None)
        elif flight.continuation is not None:
            # Closed here, too: a task that is cancelled before its first step does nothing at all.
            flight.continuation.cancel()
            self.release(flight)

    def _close(self, flight: Flight, landed: Landed | None) -> None:
        if flight.done:
            return
        flight.done, flight.landed = True, landed
        if self._open.get(flight.key) is flight:
            del self._open[flight.key]
        if flight.closed is not None:
            flight.closed(landed)
        for waiter in list(flight.waiters):
            if not waiter.done():
                waiter.set_result(landed)
        if not flight.waited_for:
            self._by_number.pop(flight.number, None)


def to_origin(origin: str, flight: Flight, ticket: int, metadata: Metadata) -> Forward:
    """Return what sends whoever is expected by `ticket` to the processor's origin, the cluster `origin`."""
    return Forward(
        ORIGIN_ROUTE,
        # The origin knows the question.
        body=b"",
        remove=names.CREDENTIALS,
        add=((names.ORIGIN, origin), (names.FLIGHT, f"{flight.number}.{ticket}")),
        metadata=metadata,
    )
