"""Flights and the streams that they share: examples, then a machine that tries every order of events."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from ext_proc.flights import (
    BOARDING_S,
    Call,
    Flight,
    Flights,
    Follower,
    Landed,
    Word,
)
from ext_proc.live_stream import LiveStream, StreamCut
from ext_proc.openai.paths import Operation
from ext_proc.openai.sse import EventParser
from tests.unit.ext_proc.exchanges import exchange, head

LANDED = Landed(
    b'{"choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}]}', "application/json"
)
FOLLOWER = Follower(head(), (), usage=True)


def event(text: str, **more: Any) -> bytes:
    """Return one event of a chat stream."""
    chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}], **more}
    return b"data: " + orjson.dumps(chunk) + b"\n\n"


USAGE = b"data: " + orjson.dumps({"choices": [], "usage": {"prompt_tokens": 1}}) + b"\n\n"
DONE = b"data: [DONE]\n\n"


async def settled() -> None:
    """Let everything run that can."""
    for _ in range(8):
        await asyncio.sleep(0)


async def all_of(live: LiveStream, *, usage: bool = True) -> bytes:
    """Return everything that a follower gets."""
    return b"".join([piece async for piece in live.follow(usage=usage)])


async def test_a_whole_answer_to_a_stream_is_told_as_a_stream() -> None:
    """A provider that was asked for a stream may answer in one piece."""
    flights = Flights()
    flight = flights.open(b"k", exchange(), LiveStream(Operation.CHAT))
    flights.land(flight, LANDED)
    assert flight.live is not None
    events = EventParser().feed(await all_of(flight.live, usage=False))
    assert orjson.loads(events[0].data)["choices"][0]["delta"]["content"] == ""
    assert orjson.loads(events[1].data)["choices"][0]["delta"]["content"] == "hi"
    assert events[-1].data == b"[DONE]"


@pytest.mark.parametrize("first", ["left", "started"])
async def test_a_call_that_nobody_waits_for_is_ended(first: str) -> None:
    """Also one that has not made its first step."""
    flights = Flights()
    flight = flights.open(b"k", exchange(), None)
    waiting = asyncio.create_task(flights.wait(flight))
    await settled()
    flights.carry_on(flight, asyncio.Event().wait())  # type: ignore[arg-type]
    if first == "started":
        await settled()
    waiting.cancel()
    await settled()
    assert flight.continuation is not None
    assert flight.continuation.cancelled()
    assert (len(flights), flights.numbered(flight.number)) == (0, None)


async def test_closing_ends_every_call() -> None:
    """Nothing of them is left running."""
    flights = Flights()
    flight = flights.open(b"k", exchange(), None)
    flights.carry_on(flight, asyncio.Event().wait())  # type: ignore[arg-type]
    await flights.close()
    assert flight.continuation is not None
    assert flight.continuation.done()


async def test_nobody_boards_twice_or_unexpected() -> None:
    """A ticket is good once."""
    flights = Flights()
    flight = flights.open(b"k", exchange(), LiveStream(Operation.CHAT))
    ticket = flights.expect(flight, FOLLOWER)
    assert flights.board(flight, ticket) is FOLLOWER
    assert flights.board(flight, ticket) is None
    assert flights.board(flight, ticket + 1) is None
    assert len(flight) == 1


async def test_who_has_waited_longest_leads_and_the_others_wait_on() -> None:
    """One is woken each time; the answer wakes the rest."""
    flights = Flights()
    flight = flights.open(b"k", exchange(), None)
    waiting = [asyncio.create_task(flights.wait(flight)) for _ in range(3)]
    await settled()
    for leads in (1, 2):
        assert flights.promote(flight)
        await settled()
        assert [task.done() for task in waiting] == [True] * leads + [False] * (3 - leads)
    assert (len(flight), flights.find(b"k")) == (1, flight)
    flights.land(flight, LANDED)
    assert [await task for task in waiting] == [Call.LEAD, Call.LEAD, LANDED]
    assert (len(flights), flights.numbered(flight.number)) == (0, None)


async def test_one_that_leaves_when_it_was_told_to_lead_hands_that_on() -> None:
    """Nobody waits for a leader that is not there; without anybody else, the flight ends."""
    flights = Flights()
    flight = flights.open(b"k", exchange(), None)
    first, second = (asyncio.create_task(flights.wait(flight)) for _ in range(2))
    await settled()
    flights.hand_on(flight)
    first.cancel()
    await settled()
    assert await second is Call.LEAD
    assert not flight.done
    third = asyncio.create_task(flights.wait(flight))
    await settled()
    flights.hand_on(flight)
    third.cancel()
    await settled()
    assert (flight.done, len(flights), flights.numbered(flight.number)) == (True, 0, None)


async def test_a_flight_that_is_handed_on_lives_when_the_others_leave() -> None:
    """Its call is the new leader's own, no more the one in the old leader's place."""
    flights = Flights()
    flight = flights.open(b"k", exchange(), None)
    first, second = (asyncio.create_task(flights.wait(flight)) for _ in range(2))
    await settled()
    flights.carry_on(flight, settled())
    flights.hand_on(flight)
    second.cancel()
    assert await first is Call.LEAD
    await settled()
    assert (flight.done, flights.find(b"k")) == (False, flight)
    flights.release(flight)


async def test_without_anybody_who_waits_nobody_is_promoted() -> None:
    """Followers of the stream are with the origin: they cannot lead, and are cut."""
    flights = Flights()
    flight = flights.open(b"k", exchange(), LiveStream(Operation.CHAT))
    flights.board(flight, flights.expect(flight, FOLLOWER))
    assert not flights.promote(flight)
    flights.hand_on(flight)
    assert (flight.done, flight.live.cut if flight.live else None) == (True, True)
    assert not flights.promote(flight)


@pytest.mark.parametrize("landed", [LANDED, None])
async def test_whoever_begins_to_wait_when_it_is_over_does_not_wait(landed: Landed | None) -> None:
    """The answer may come while one asks Envoy for time."""
    flights = Flights()
    flight = flights.open(b"k", exchange(), None)
    if landed is not None:
        flights.land(flight, landed)
    else:
        flights.release(flight)
    async with asyncio.timeout(1):
        assert await flights.wait(flight) is landed


class Clock(asyncio.SelectorEventLoop):
    """An event loop whose time stands until it is moved."""

    now = 0.0

    def time(self) -> float:
        """Return the time in seconds."""
        return self.now

    def settle(self) -> None:
        """Let everything run that can."""
        self.run_until_complete(settled())

    @property
    def timers(self) -> int:
        """How many timers wait."""
        return sum(not handle.cancelled() for handle in self._scheduled)  # type: ignore[attr-defined]


@dataclass(eq=False)
class Waiting:
    """One who waits for the whole answer."""

    flight: Flight
    task: asyncio.Task[Word]
    left: bool = False
    leads: bool = False


@dataclass(eq=False)
class Following:
    """One who follows the stream."""

    flight: Flight
    ticket: int
    task: asyncio.Task[None] | None = None
    heard: list[bytes] = field(default_factory=list)
    ended: str = ""


class FlightsMachine(RuleBasedStateMachine):
    """Leaders, waiters, followers and calls come and go in any order."""

    flights_seen = Bundle("flights")
    waiting = Bundle("waiting")
    following = Bundle("following")

    def __init__(self) -> None:
        super().__init__()
        self.loop = Clock()
        self.flights = Flights()
        self.opened: list[Flight] = []
        self.told: dict[int, list[bytes]] = {}
        self.outcome: dict[int, Landed | None] = {}
        self.everybody: list[Waiting] = []
        self.followers: list[Following] = []

    def run(self, call: Coroutine[Any, Any, Any]) -> Any:
        """Run `call` and all that follows from it."""
        result = self.loop.run_until_complete(call)
        self.loop.settle()
        return result

    async def _do(self, act: Any, *args: Any, **more: Any) -> Any:
        return act(*args, **more)

    @rule(target=flights_seen, key=st.sampled_from([b"a", b"b"]), stream=st.booleans())
    def lead(self, key: bytes, stream: bool) -> Flight:
        """Open a flight, or find the open one."""
        found = self.flights.find(key)
        if found is not None:
            return found
        live = LiveStream(Operation.CHAT) if stream else None
        flight = self.flights.open(key, exchange(), live)
        self.opened.append(flight)
        self.told[flight.number] = []
        return flight

    @rule(target=waiting, flight=flights_seen)
    def wait(self, flight: Flight) -> Waiting | None:
        """Wait for the whole answer of an open flight."""
        if flight.done:
            return None
        one = Waiting(flight, self.loop.create_task(self.flights.wait(flight)))
        self.everybody.append(one)
        self.loop.settle()
        return one

    @rule(one=waiting)
    def waiter_leaves(self, one: Waiting | None) -> None:
        """It hangs up."""
        if one is not None and not one.task.done():
            one.left = True
            one.task.cancel()
            self.loop.settle()

    @rule(target=following, flight=flights_seen)
    def expect(self, flight: Flight) -> Following | None:
        """A follower is sent to the origin."""
        if flight.live is None or not flight.joinable:
            return None
        one = Following(flight, self.run(self._do(self.flights.expect, flight, FOLLOWER)))
        self.followers.append(one)
        return one

    @rule(one=following)
    def board(self, one: Following | None) -> None:
        """It arrives there, if it has not yet."""
        if one is None or one.task is not None:
            return
        flight = self.flights.numbered(one.flight.number)
        if flight is not None and self.flights.board(flight, one.ticket) is not None:
            one.task = self.loop.create_task(self._follow(one))
            self.loop.settle()

    async def _follow(self, one: Following) -> None:
        assert one.flight.live is not None
        try:
            async for piece in one.flight.live.follow(usage=True):
                one.heard.append(piece)
            one.ended = "whole"
        except StreamCut:
            one.ended = "cut"
        finally:
            self.flights.disembark(one.flight)

    @rule(one=following)
    def follower_leaves(self, one: Following | None) -> None:
        """It hangs up."""
        if one is not None and one.task is not None:
            one.task.cancel()
            self.loop.settle()

    @rule(seconds=st.sampled_from([1.0, BOARDING_S + 1]))
    def time_passes(self, seconds: float) -> None:
        """Those who have not arrived are late."""
        self.loop.now += seconds
        self.loop.settle()

    @rule(flight=flights_seen, text=st.text(max_size=3))
    def say(self, flight: Flight, text: str) -> None:
        """The provider says something."""
        if flight.live is not None and not flight.done:
            part = event(text)
            self.told[flight.number].append(part)
            self.run(self._do(flight.live.append, part))

    @rule(flight=flights_seen)
    def land(self, flight: Flight) -> None:
        """The answer is whole."""
        if not flight.done:
            self.outcome[flight.number] = LANDED
            self.run(self._do(self.flights.land, flight, LANDED))

    @rule(flight=flights_seen)
    def release(self, flight: Flight) -> None:
        """There will be none."""
        if not flight.done:
            self.outcome[flight.number] = None
            self.run(self._do(self.flights.release, flight))

    @rule(flight=flights_seen)
    @precondition(lambda self: self.opened)
    def leader_leaves(self, flight: Flight) -> None:
        """A call of the flight's own goes on, as the stage has it: only when somebody waits."""
        if not flight.done and flight.continuation is None and flight.waited_for:
            self.run(self._do(self.flights.carry_on, flight, self._call(flight)))

    @rule(flight=flights_seen, leave=st.integers(0, 2))
    def leader_hands_on(self, flight: Flight, leave: int) -> None:
        """It was never sent. As many as `leave` of those who wait leave at the same moment."""
        if flight.done or flight.continuation is not None:
            return
        line = [one for one in self.everybody if one.flight is flight and not one.task.done()]
        self.loop.run_until_complete(self._hand_on(flight, line[:leave]))
        self.loop.settle()
        if line[leave:]:
            line[leave].leads = True
        else:
            self.outcome[flight.number] = None

    async def _hand_on(self, flight: Flight, leaving: list[Waiting]) -> None:
        self.flights.hand_on(flight)
        for one in leaving:
            one.left = True
            one.task.cancel()

    async def _call(self, flight: Flight) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.flights.release(flight)

    @invariant()
    def everybody_was_woken_as_it_should(self) -> None:
        """Exactly once, with the answer or with the word that there is none."""
        for one in self.everybody:
            assert one.task.done() == (one.flight.done or one.left or one.leads)
            if one.leads:
                assert one.task.result() is Call.LEAD
            elif one.task.done() and not one.left:
                assert one.task.result() is self.outcome[one.flight.number]

    @invariant()
    def everybody_heard_everything_once(self) -> None:
        """In order; and the end is the one that came."""
        for one in self.followers:
            if one.task is None or one.flight.live is None:
                continue
            heard, told = b"".join(one.heard), b"".join(self.told[one.flight.number])
            if told:
                assert told.startswith(heard)
            if one.ended:
                assert not told or heard == told
                whole = self.outcome.get(one.flight.number) is not None
                assert one.ended == ("whole" if whole else "cut")

    @invariant()
    def nothing_is_left_of_what_nobody_waits_for(self) -> None:
        """No entry, no call."""
        for flight in self.opened:
            if flight.done and not flight.waited_for:
                assert self.flights.numbered(flight.number) is None
            if flight.done:
                assert self.flights.find(flight.key) is not flight
            if flight.continuation is not None and not flight.waited_for:
                assert flight.continuation.done() or flight.done
            assert flight.followers >= 0

    def teardown(self) -> None:
        """When all are gone, nothing is left: no entry, timer or task."""
        for flight in self.opened:
            if flight.continuation is not None:
                flight.continuation.cancel()
        for task in (one.task for people in (self.everybody, self.followers) for one in people):
            if task is not None:
                task.cancel()
        self.loop.settle()
        for flight in self.opened:
            self.run(self._do(self.flights.release, flight))
        self.loop.now += BOARDING_S + 1
        self.loop.settle()
        assert len(self.flights) == 0
        assert [self.flights.numbered(flight.number) for flight in self.opened] == [None] * len(self.opened)
        assert not asyncio.all_tasks(self.loop)
        assert self.loop.timers == 0
        self.loop.close()


TestFlights = FlightsMachine.TestCase
TestFlights.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
