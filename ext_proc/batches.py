"""Batches: inputs of several requests that go up in one call (docs/policies/batch.md).

A *gathering* is of one question shape: equal model, version, parameters and keys. A request that comes while
few others of its gathering are waiting goes up by itself at once. While more are, inputs gather; they go
up when they are enough for a call, when the first of them has waited as long as it may, or when nothing of
the gathering is out any more (group commit).

Invariants: an input is in one call at a time; a waiter is woken exactly once, with a share for each of its
inputs or with none at all, and then goes alone; a call that nobody waits for is ended.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ext_proc.adaptation import Adaptation
from ext_proc.exchange import Exchange
from ext_proc.openai.batching.inputs import Codec, Input, Parts, Share


@dataclass(frozen=True, slots=True)
class Terms:
    """How a gathering gathers. `max_inputs` and `max_tokens` bound one call, `max_wait_s` the waiting."""

    send_below: int
    max_inputs: int
    max_tokens: int
    max_wait_s: float


@dataclass(slots=True, eq=False)
class Member:
    """A request whose inputs are in batches, and what has come of them."""

    exchange: Exchange
    parts: Parts
    done: asyncio.Future[list[Share] | None]
    shares: list[Share | None]
    backend: str = ""
    size: int = 0

    @property
    def waits(self) -> bool:
        """Whether somebody still wants the answer."""
        return not self.done.done()

    def take(self, place: int, share: Share) -> None:
        """Take the share of one input; with the last one the request is answered."""
        self.shares[place] = share
        whole = [one for one in self.shares if one is not None]
        if len(whole) == len(self.shares) and not self.done.done():
            self.done.set_result(whole)

    def alone(self) -> None:
        """Send the request up by itself."""
        if not self.done.done():
            self.done.set_result(None)


@dataclass(frozen=True, slots=True)
class Place:
    """One input of a member."""

    member: Member
    number: int

    @property
    def input(self) -> Input:
        """The input itself."""
        return self.member.parts.inputs[self.number]


@dataclass(slots=True, eq=False)
class Batch:
    """The inputs of one call. Its first member stands for all in what is equal."""

    gathering: Gathering
    places: list[Place]

    @property
    def codec(self) -> Codec:
        """How its inputs are put together."""
        return self.gathering.codec

    @property
    def members(self) -> list[Member]:
        """Everybody with an input in it, each once."""
        return list({id(place.member): place.member for place in self.places}.values())

    @property
    def wanted(self) -> bool:
        """Whether anybody waits for it."""
        return any(place.member.waits for place in self.places)


@dataclass(slots=True, eq=False)
class Gathering:
    """Requests of one shape: those that wait for company, and how many are out."""

    key: Hashable
    codec: Codec
    terms: Terms
    adaptation: Adaptation | None = None
    waiting: deque[Place] = field(default_factory=deque)
    requests: int = 0  # on their way or waiting
    calls: int = 0  # out
    timer: asyncio.TimerHandle | None = None


class Batches:
    """The gatherings of one processor.

    Args:
        send: makes the call of one batch: gives each place its share, or leaves members for `alone`.
        clock: a monotonic time in seconds.
    """

    def __init__(
        self, send: Callable[[Batch], Coroutine[Any, Any, None]], clock: Callable[[], float]
    ) -> None:
        self._send = send
        self._clock = clock
        self._gatherings: dict[Hashable, Gathering] = {}
        self._calls: dict[asyncio.Task[None], Batch] = {}

    def __len__(self) -> int:
        return len(self._gatherings)

    def gathering(
        self, key: Hashable, codec: Codec, terms: Terms, adaptation: Adaptation | None = None
    ) -> Gathering:
        """Return the gathering of `key`, opened with these if there is none."""
        found = self._gatherings.get(key)
        if found is None:
            found = self._gatherings[key] = Gathering(key, codec, terms, adaptation)
        return found

    def goes_at_once(self, gathering: Gathering, inputs: int) -> bool:
        """Say whether a request with so many inputs need not wait; if so, `left` must be told of its end."""
        if gathering.adaptation is not None:
            gathering.adaptation.arrived(self._clock(), inputs)
        if gathering.requests + 1 >= gathering.terms.send_below or inputs > gathering.terms.max_inputs:
            return False
        gathering.requests += 1
        gathering.calls += 1
        return True

    def left(self, key: Hashable) -> None:
        """Take notice that a request which went at once has ended, by the key of its gathering."""
        gathering = self._gatherings[key]
        gathering.requests -= 1
        self._call_ended(gathering)

    async def wait(self, gathering: Gathering, exchange: Exchange, parts: Parts) -> Member:
        """Gather with others until all inputs are answered, or the request has to go alone."""
        done: asyncio.Future[list[Share] | None] = asyncio.get_running_loop().create_future()
        member = Member(exchange, parts, done, [None] * len(parts.inputs))
        gathering.requests += 1
        gathering.waiting.extend(Place(member, number) for number in range(len(parts.inputs)))
        self._send_what_is_ready(gathering)
        try:
            await done
        finally:
            gathering.requests -= 1
            if done.cancelled():
                self._gone(gathering, member)
            self._forget(gathering)
        return member

    def _send_what_is_ready(self, gathering: Gathering) -> None:
        size = gathering.adaptation.size if gathering.adaptation is not None else gathering.terms.max_inputs
        while len(gathering.waiting) >= size or self._tokens(gathering) >= gathering.terms.max_tokens:
            self._dispatch(gathering, size)
        if gathering.waiting and gathering.calls == 0 and gathering.terms.send_below > 1:
            self._send_all(gathering)
        elif gathering.waiting and gathering.timer is None:
            wait_s = gathering.terms.max_wait_s
            if gathering.adaptation is not None:
                wait_s = gathering.adaptation.window_s(self._clock())
            loop = asyncio.get_running_loop()
            gathering.timer = loop.call_later(wait_s, self._waited, gathering)
        elif not gathering.waiting:
            self._stop_timer(gathering)

    def _tokens(self, gathering: Gathering) -> int:
        return sum(place.input.tokens for place in gathering.waiting)

    def _waited(self, gathering: Gathering) -> None:
        gathering.timer = None
        self._send_all(gathering)

    def _send_all(self, gathering: Gathering) -> None:
        while gathering.waiting:
            self._dispatch(gathering, gathering.terms.max_inputs)
        self._stop_timer(gathering)

    def _dispatch(self, gathering: Gathering, size: int) -> None:
        """Send the first `size` inputs, or as many as the token bound allows; one goes in any case."""
        places: list[Place] = []
        tokens = 0
        while gathering.waiting and len(places) < size:
            tokens += gathering.waiting[0].input.tokens
            if places and tokens > gathering.terms.max_tokens:
                break
            places.append(gathering.waiting.popleft())
        batch = Batch(gathering, places)
        gathering.calls += 1
        task = asyncio.get_running_loop().create_task(self._run(batch), name="batch")
        self._calls[task] = batch
        task.add_done_callback(self._ended)

    async def _run(self, batch: Batch) -> None:
        began = self._clock()
        await self._send(batch)
        if batch.gathering.adaptation is not None:
            batch.gathering.adaptation.answered(len(batch.places), self._clock() - began)

    def _ended(self, task: asyncio.Task[None]) -> None:
        batch = self._calls.pop(task)
        for member in batch.members:
            if any(member.shares[place.number] is None for place in batch.places if place.member is member):
                member.alone()
        self._call_ended(batch.gathering)

    def _call_ended(self, gathering: Gathering) -> None:
        gathering.calls -= 1
        if gathering.waiting:
            self._send_what_is_ready(gathering)
        self._forget(gathering)

    def _gone(self, gathering: Gathering, member: Member) -> None:
        """Take out what a member still had waiting, and end the calls that were for nobody else."""
        if any(place.member is member for place in gathering.waiting):
            gathering.waiting = deque(place for place in gathering.waiting if place.member is not member)
        for task, batch in list(self._calls.items()):
            if batch.gathering is gathering and not batch.wanted:
                task.cancel()

    def _forget(self, gathering: Gathering) -> None:
        if gathering.requests or gathering.calls or gathering.waiting:
            return
        self._stop_timer(gathering)
        if self._gatherings.get(gathering.key) is gathering:
            del self._gatherings[gathering.key]

    def _stop_timer(self, gathering: Gathering) -> None:
        if gathering.timer is not None:
            gathering.timer.cancel()
            gathering.timer = None


def shares_of(places: Sequence[Place], shares: Sequence[Share | None]) -> None:
    """Give each place its share; one without any makes its member go alone."""
    for place, share in zip(places, shares, strict=True):
        if share is None:
            place.member.alone()
        else:
            place.member.take(place.number, share)
