"""Batches: inputs of several requests that go up in one call (docs/policies/batch.md).

A *queue* is of one question shape: equal model, version, parameters and keys. A request that comes while
few others of its queue are waiting goes up by itself at once. While more are, inputs gather; they go
up when they are enough for a call, when the first of them has waited as long as it may, or when nothing of
the queue is out any more (group commit).

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
    """How a queue gathers. `max_inputs` and `max_tokens` bound one call, `max_wait_s` the waiting."""

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
    missing: int
    backend: str = ""
    size: int = 0

    @property
    def waits(self) -> bool:
        """Whether somebody still wants the answer."""
        return not self.done.done()

    def take(self, number: int, share: Share) -> None:
        """Take the share of one input; with the last one the request is answered."""
        self.shares[number] = share
        self.missing -= 1
        if not self.missing and not self.done.done():
            self.done.set_result([one for one in self.shares if one is not None])

    def alone(self) -> None:
        """Send the request up by itself."""
        if not self.done.done():
            self.done.set_result(None)


@dataclass(frozen=True, slots=True)
class QueuedInput:
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

    queue: BatchQueue
    queued: list[QueuedInput]

    @property
    def codec(self) -> Codec:
        """How its inputs are put together."""
        return self.queue.codec

    @property
    def members(self) -> list[Member]:
        """Everybody with an input in it, each once."""
        return list({id(entry.member): entry.member for entry in self.queued}.values())

    @property
    def wanted(self) -> bool:
        """Whether anybody waits for it."""
        return any(entry.member.waits for entry in self.queued)


@dataclass(slots=True, eq=False)
class BatchQueue:
    """Requests of one shape: those that wait for company, and how many are out."""

    key: Hashable
    codec: Codec
    terms: Terms
    adaptation: Adaptation | None = None
    waiting: deque[QueuedInput] = field(default_factory=deque)
    tokens: int = 0  # of those that wait
    requests: int = 0  # on their way or waiting
    calls: int = 0  # out
    timer: asyncio.TimerHandle | None = None


class Batches:
    """The queues of one processor.

    Args:
        send: makes the call of one batch and gives inputs their shares; members with one that got none go
            alone. Returns whether the provider answered.
        clock: a monotonic time in seconds.
    """

    def __init__(
        self, send: Callable[[Batch], Coroutine[Any, Any, bool]], clock: Callable[[], float]
    ) -> None:
        self._send = send
        self._clock = clock
        self._queues: dict[Hashable, BatchQueue] = {}
        self._calls: dict[asyncio.Task[None], Batch] = {}

    def __len__(self) -> int:
        return len(self._queues)

    def queue(
        self, key: Hashable, codec: Codec, terms: Terms, adaptation: Adaptation | None = None
    ) -> BatchQueue:
        """Return the queue of `key`, opened with these if there is none."""
        found = self._queues.get(key)
        if found is None:
            found = self._queues[key] = BatchQueue(key, codec, terms, adaptation)
        return found

    def goes_at_once(self, queue: BatchQueue, inputs: int) -> bool:
        """Say whether a request with so many inputs need not wait; if so, `left` must be told of its end."""
        if queue.adaptation is not None:
            queue.adaptation.arrived(self._clock(), inputs)
        if queue.requests + 1 >= queue.terms.send_below or inputs > queue.terms.max_inputs:
            self._forget(queue)
            return False
        queue.requests += 1
        queue.calls += 1
        return True

    def left(self, key: Hashable) -> None:
        """Take notice that a request which went at once has ended, by the key of its queue."""
        queue = self._queues[key]
        queue.requests -= 1
        self._call_ended(queue)

    async def wait(self, queue: BatchQueue, exchange: Exchange, parts: Parts) -> Member:
        """Gather with others until all inputs are answered, or the request has to go alone."""
        done: asyncio.Future[list[Share] | None] = asyncio.get_running_loop().create_future()
        member = Member(exchange, parts, done, [None] * len(parts.inputs), len(parts.inputs))
        queue.requests += 1
        queue.waiting.extend(QueuedInput(member, number) for number in range(len(parts.inputs)))
        queue.tokens += sum(one.tokens for one in parts.inputs)
        self._send_what_is_ready(queue)
        try:
            await done
        finally:
            queue.requests -= 1
            if done.cancelled():
                self._gone(queue, member)
            self._forget(queue)
        return member

    async def close(self) -> None:
        """End every call; the members of each go alone."""
        calls = list(self._calls)
        for task in calls:
            task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    def _send_what_is_ready(self, queue: BatchQueue) -> None:
        size = queue.adaptation.size if queue.adaptation is not None else queue.terms.max_inputs
        while len(queue.waiting) >= size or queue.tokens >= queue.terms.max_tokens:
            self._dispatch(queue, size)
        if queue.waiting and queue.calls == 0 and queue.terms.send_below > 1:
            self._send_all(queue)
        elif queue.waiting and queue.timer is None:
            wait_s = queue.terms.max_wait_s
            if queue.adaptation is not None:
                wait_s = queue.adaptation.window_s(self._clock())
            loop = asyncio.get_running_loop()
            queue.timer = loop.call_later(wait_s, self._waited, queue)
        elif not queue.waiting:
            self._stop_timer(queue)

    def _waited(self, queue: BatchQueue) -> None:
        queue.timer = None
        self._send_all(queue)

    def _send_all(self, queue: BatchQueue) -> None:
        while queue.waiting:
            self._dispatch(queue, queue.terms.max_inputs)
        self._stop_timer(queue)

    def _dispatch(self, queue: BatchQueue, size: int) -> None:
        """Send the first `size` inputs, or as many as the token bound allows; one goes in any case."""
        queued: list[QueuedInput] = []
        tokens = 0
        while queue.waiting and len(queued) < size:
            tokens += queue.waiting[0].input.tokens
            if queued and tokens > queue.terms.max_tokens:
                break
            queue.tokens -= queue.waiting[0].input.tokens
            queued.append(queue.waiting.popleft())
        batch = Batch(queue, queued)
        queue.calls += 1
        task = asyncio.get_running_loop().create_task(self._run(batch), name="batch")
        self._calls[task] = batch
        task.add_done_callback(self._ended)

    async def _run(self, batch: Batch) -> None:
        began = self._clock()
        answered = await self._send(batch)
        # How long a refusal takes says nothing of a batch.
        if answered and batch.queue.adaptation is not None:
            batch.queue.adaptation.answered(len(batch.queued), self._clock() - began)

    def _ended(self, task: asyncio.Task[None]) -> None:
        batch = self._calls.pop(task)
        for member in batch.members:
            if any(member.shares[entry.number] is None for entry in batch.queued if entry.member is member):
                member.alone()
        self._call_ended(batch.queue)

    def _call_ended(self, queue: BatchQueue) -> None:
        queue.calls -= 1
        if queue.waiting:
            self._send_what_is_ready(queue)
        self._forget(queue)

    def _gone(self, queue: BatchQueue, member: Member) -> None:
        """Take out what a member still had waiting, and end the calls that were for nobody else."""
        if any(entry.member is member for entry in queue.waiting):
            queue.waiting = deque(entry for entry in queue.waiting if entry.member is not member)
            queue.tokens = sum(entry.input.tokens for entry in queue.waiting)
        for task, batch in list(self._calls.items()):
            if batch.queue is queue and not batch.wanted:
                task.cancel()

    def _forget(self, queue: BatchQueue) -> None:
        if queue.requests or queue.calls or queue.waiting:
            return
        self._stop_timer(queue)
        if self._queues.get(queue.key) is queue:
            del self._queues[queue.key]

    def _stop_timer(self, queue: BatchQueue) -> None:
        if queue.timer is not None:
            queue.timer.cancel()
            queue.timer = None


def shares_of(queued: Sequence[QueuedInput], shares: Sequence[Share | None]) -> None:
    """Give each entry its share; one without any makes its member go alone."""
    for entry, share in zip(queued, shares, strict=True):
        if share is None:
            entry.member.alone()
        else:
            entry.member.take(entry.number, share)
