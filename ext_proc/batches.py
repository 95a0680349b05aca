"""Batches: inputs of several requests that go up in one call (docs/policies/batch.md).

A *queue* is of one question shape: equal model, version, parameters and keys. A request that comes while
few others of its queue are waiting goes up by itself at once. While more are, inputs gather; they go
up when they are enough for a call, when the first of them has waited as long as it may, or when nothing of
the queue is out any more (group commit).

A call that fails sends its members up by themselves. Of a request that is larger than a call may be, only
what was in that call is asked again, without company, and when that fails, too, the failure is its answer.

Invariants: an input is in one call at a time; a waiter is woken exactly once, with a share for each of its
inputs or with none at all, and then goes alone; a call that nobody waits for is ended.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

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


CALLS_AT_ONCE: Final = 16
"""How many calls of one queue are out at the same time. What comes beyond waits for the end of one."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What a provider said of a call that failed."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...]


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
    # Why it has no answer, when it cannot go by itself either: None where nobody said why.
    failure: Failure | None = None
    failed: bool = False

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

    def fail(self, failure: Failure | None) -> None:
        """Give it the failure of one of its calls."""
        self.failed, self.failure = True, failure
        self.alone()


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
    failure: Failure | None = None

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
    calls: int = 0  # out, those of single requests too
    batches: int = 0  # out
    # Inputs of one request that are asked again without company.
    again: deque[list[QueuedInput]] = field(default_factory=deque)
    due: bool = False  # those that wait have waited long enough
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
            if member.missing:
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
        while queue.again and queue.batches < CALLS_AT_ONCE:
            self._start(Batch(queue, queue.again.popleft()))
        size = queue.adaptation.size if queue.adaptation is not None else queue.terms.max_inputs
        while queue.batches < CALLS_AT_ONCE and self._is_ready(queue, size):
            self._start(Batch(queue, self._taken(queue, size)))
        if not queue.waiting:
            queue.due = False
            self._stop_timer(queue)
        elif queue.timer is None and not queue.due:
            wait_s = queue.terms.max_wait_s
            if queue.adaptation is not None:
                wait_s = queue.adaptation.window_s(self._clock())
            queue.timer = asyncio.get_running_loop().call_later(wait_s, self._waited, queue)

    def _is_ready(self, queue: BatchQueue, size: int) -> bool:
        """Whether a call can be made of those that wait."""
        if not queue.waiting:
            return False
        idle = queue.calls == 0 and queue.terms.send_below > 1
        return len(queue.waiting) >= size or queue.tokens >= queue.terms.max_tokens or queue.due or idle

    def _waited(self, queue: BatchQueue) -> None:
        queue.timer = None
        queue.due = True
        self._send_what_is_ready(queue)

    def _taken(self, queue: BatchQueue, size: int) -> list[QueuedInput]:
        """Take the first `size` inputs, or as many as the token bound allows; one in any case."""
        taken: list[QueuedInput] = []
        tokens = 0
        while queue.waiting and len(taken) < size:
            tokens += queue.waiting[0].input.tokens
            if taken and tokens > queue.terms.max_tokens:
                break
            queue.tokens -= queue.waiting[0].input.tokens
            taken.append(queue.waiting.popleft())
        return taken

    def _start(self, batch: Batch) -> None:
        batch.queue.calls += 1
        batch.queue.batches += 1
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
        queue, members = batch.queue, batch.members
        queue.batches -= 1
        for member in members:
            lost = [one for one in batch.queued if one.member is member and member.shares[one.number] is None]
            if not lost or not member.waits:
                continue
            if len(member.shares) <= queue.terms.max_inputs:
                member.alone()
            elif len(members) > 1:
                # By itself the request would be more than a call may hold.
                queue.again.append(lost)
            else:
                member.fail(batch.failure)
        self._call_ended(queue)

    def _call_ended(self, queue: BatchQueue) -> None:
        queue.calls -= 1
        if queue.waiting or queue.again:
            self._send_what_is_ready(queue)
        self._forget(queue)

    def _gone(self, queue: BatchQueue, member: Member) -> None:
        """Take out what a member still had waiting, and end the calls that were for nobody else."""
        if any(entry.member is member for entry in queue.waiting):
            queue.waiting = deque(entry for entry in queue.waiting if entry.member is not member)
            queue.tokens = sum(entry.input.tokens for entry in queue.waiting)
        queue.again = deque(some for some in queue.again if some[0].member is not member)
        for task, batch in list(self._calls.items()):
            if batch.queue is queue and not batch.wanted:
                task.cancel()

    def _forget(self, queue: BatchQueue) -> None:
        if queue.requests or queue.calls or queue.waiting or queue.again:
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
