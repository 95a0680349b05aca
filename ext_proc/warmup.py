"""Waking providers (`warmup` of a Backend): small calls of our own, at the start and after a long pause.

They go through Envoy like any other call, and draw on the Backend's quota. They are nobody's: no limit counts
them, no cache keeps them. The first one that is not answered well ends the round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from functools import partial
from itertools import cycle
from typing import Final, Protocol

from structlog.typing import FilteringBoundLogger

from ext_proc.continuation import Caller, CallFailed, whole_body
from ext_proc.contract.headers import ERROR
from ext_proc.contract.snapshot import Backend, Model, Version, Warmup
from ext_proc.exchange import Answer, Exchange, Forward, RequestHead, ResponseHead
from ext_proc.openai.paths import classify
from ext_proc.openai.requests import encode, parse_request
from ext_proc.snapshots import Loaded
from ext_proc.warmth import Warmth

AT_ONCE: Final = 8
LOOK_EVERY_S: Final = 1.0
UNREACHED_AGAIN_S: Final = 1.0
"""At the start Envoy may not be there yet."""
UNREACHED_AT_MOST: Final = 60
_HEAD: Final = RequestHead("POST", "/v1/chat/completions", "", {"content-type": "application/json"})


class Outcome(StrEnum):
    """What became of a call that was to wake a provider. A closed set."""

    OK = "ok"
    REFUSED = "refused"  # by the provider, or by its quota
    FAILED = "failed"  # no answer, or none from the provider


class WarmthCounter(Protocol):
    """Who counts what is seen and done."""

    def warmed(self, outcome: Outcome) -> None:
        """Count a call that was to wake a provider."""
        ...

    def started_cold(self) -> None:
        """Count a call of somebody that found its provider cold."""
        ...


class Turns(Protocol):
    """Whose turn it is among processors that share a provider."""

    async def take(self, backend: str, for_s: float) -> bool:
        """Whether this one is to wake `backend`; nobody else is within `for_s` then."""
        ...

    def used(self, backend: str, for_s: float) -> None:
        """Say that `backend` was called, so that nobody needs to wake it within `for_s`."""
        ...


class OwnTurns:
    """For a processor that shares with nobody."""

    async def take(self, backend: str, for_s: float) -> bool:
        """It always is."""
        return True

    def used(self, backend: str, for_s: float) -> None:
        """Tell nobody."""


class WarmUp:
    """Wakes providers. For one event loop.

    Args:
        current: the snapshot in force.
        caller: who makes the calls.
        turns: who of several processors makes them.
        clock: seconds, of any beginning.
        log: where a round that fails is told.
    """

    def __init__(
        self,
        current: Callable[[], Loaded | None],
        caller: Caller,
        turns: Turns,
        clock: Callable[[], float],
        log: FilteringBoundLogger,
    ) -> None:
        self._current = current
        self._caller = caller
        self._turns = turns
        self._clock = clock
        self._log = log
        self._warmth: dict[str, Warmth] = {}
        self._rounds: dict[str, asyncio.Task[None]] = {}
        self._counter: WarmthCounter | None = None
        self._decide: Callable[[Exchange], Awaitable[Answer | Forward | None]] | None = None
        self._ended: Callable[[Exchange], None] = lambda exchange: None
        self._looking: asyncio.Task[None] | None = None

    def go_by(
        self,
        decide: Callable[[Exchange], Awaitable[Answer | Forward | None]],
        ended: Callable[[Exchange], None],
    ) -> None:
        """Say who decides where a call goes, and who hears of its end; before `begin`."""
        self._decide, self._ended = decide, ended

    def counted_by(self, counter: WarmthCounter) -> None:
        """Say who counts; before `begin`."""
        self._counter = counter

    def begin(self) -> None:
        """Look after all Backends from now on."""
        self._looking = asyncio.get_running_loop().create_task(self._look_on(), name="warm-up")

    async def close(self) -> None:
        """End every call."""
        tasks = [task for task in (self._looking, *self._rounds.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def sent(self, backend: Backend, warmup: Warmup) -> bool:
        """Take notice of somebody's call; return whether it is the first one after a pause."""
        idle_s = warmup.idle_after_ms / 1000
        self._turns.used(backend.name, idle_s)
        return self._of(backend).sent(self._clock(), idle_s)

    def answered(self, backend: Backend, first_byte_s: float, *, first: bool) -> None:
        """Take notice of the first byte of its answer."""
        if self._of(backend).answered(first_byte_s, first=first) and self._counter is not None:
            self._counter.started_cold()

    def look(self) -> None:
        """Begin a round for each Backend that nobody has called for so long."""
        loaded = self._current()
        if loaded is None:
            return
        now = self._clock()
        for backend in loaded.snapshot.backends.values():
            warmup = backend.warmup
            if warmup is None or backend.name in self._rounds:
                continue
            used_at = self._of(backend).used_at
            if used_at is None or now - used_at >= warmup.idle_after_ms / 1000:
                task = asyncio.get_running_loop().create_task(
                    self._round(loaded, backend, warmup), name="warm-up round"
                )
                self._rounds[backend.name] = task
                task.add_done_callback(partial(self._round_over, backend.name))

    def _round_over(self, backend: str, _: asyncio.Task[None]) -> None:
        self._rounds.pop(backend, None)

    def _of(self, backend: Backend) -> Warmth:
        found = self._warmth.get(backend.name)
        if found is None:
            found = self._warmth[backend.name] = Warmth()
        return found

    async def _look_on(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def _round(self, loaded: Loaded, backend: Backend, warmup: Warmup) -> None:
        """Make the calls of one round, some at a time."""
        try:
            if await self._turns.take(backend.name, warmup.idle_after_ms / 1000):
                await self._call_all(loaded, backend, warmup)
            self._of(backend).used_at = self._clock()
        except Exception as error:
            self._of(backend).used_at = self._clock()
            self._log.error("warming up failed", backend=backend.name, error=type(error).__name__)

    async def _call_all(self, loaded: Loaded, backend: Backend, warmup: Warmup) -> None:
        choices = _choices(loaded, backend)
        if not choices:
            self._log.warning("nothing to warm up: no Model has a version of it", backend=backend.name)
            return
        outcome = await self._first(loaded, backend, warmup, choices[0])
        left = iter(range(warmup.requests - 1))
        following = cycle((*choices[1:], choices[0]))

        async def some() -> None:
            nonlocal outcome
            for _ in left:
                if outcome is not Outcome.OK:
                    return
                told = await self._call(loaded, backend, warmup, next(following))
                outcome = told if outcome is Outcome.OK else outcome

        if outcome is Outcome.OK:
            at_once = min(AT_ONCE, backend.quota.concurrency or AT_ONCE, warmup.requests)
            await asyncio.gather(*(some() for _ in range(at_once)))
        if outcome is not Outcome.OK:
            self._log.info("warming up ends early", backend=backend.name, outcome=outcome.value)

    async def _first(
        self, loaded: Loaded, backend: Backend, warmup: Warmup, choice: tuple[Model, Version]
    ) -> Outcome:
        """Make the first call; again and again while Envoy cannot make it, at the start."""
        tries = UNREACHED_AT_MOST if self._of(backend).used_at is None else 1
        for _ in range(tries - 1):
            outcome = await self._call(loaded, backend, warmup, choice)
            if outcome is not Outcome.FAILED:
                return outcome
            await asyncio.sleep(UNREACHED_AGAIN_S)
        return await self._call(loaded, backend, warmup, choice)

    async def _call(
        self, loaded: Loaded, backend: Backend, warmup: Warmup, choice: tuple[Model, Version]
    ) -> Outcome:
        exchange = _exchange(loaded, backend, warmup, choice)
        try:
            outcome = await self._made(exchange)
        except CallFailed:
            outcome = Outcome.FAILED
        finally:
            self._ended(exchange)
        if self._counter is not None:
            self._counter.warmed(outcome)
        return outcome

    async def _made(self, exchange: Exchange) -> Outcome:
        decision = await self._decide(exchange) if self._decide is not None else None
        if not isinstance(decision, Forward):
            return Outcome.REFUSED
        exchange.forwarded = decision
        async with self._caller.call(exchange.head, decision, exchange.body) as reply:
            exchange.response = ResponseHead(reply.status, reply.headers)
            await whole_body(reply)
        if not 200 <= reply.status < 300:
            return Outcome.FAILED if ERROR in reply.headers or reply.status == 404 else Outcome.REFUSED
        return Outcome.OK


def _choices(loaded: Loaded, backend: Backend) -> list[tuple[Model, Version]]:
    """Return one version of each model that the Backend serves; those that chat, as far as names tell."""
    found: dict[str, tuple[Model, Version]] = {}
    for model in loaded.snapshot.models.values():
        for version in model.versions:
            if version.backend == backend.name and version.weight > 0:
                found.setdefault(version.upstream_model, (model, version))
    chatting = {name: choice for name, choice in found.items() if "embed" not in name.lower()}
    return list((chatting or found).values())


def _exchange(loaded: Loaded, backend: Backend, warmup: Warmup, choice: tuple[Model, Version]) -> Exchange:
    model, version = choice
    body = encode(
        {
            "model": version.upstream_model,
            "messages": [{"role": "user", "content": warmup.prompt}],
            "max_tokens": 1,
        }
    )
    made = Exchange(_HEAD, loaded, classify(_HEAD.method, _HEAD.path), holds_snapshot=False, body=body)
    made.request = parse_request(made.classified.operation, body, "application/json", None)
    made.asked_model, made.model, made.version, made.backend = model.name, model, version, backend
    made.policy = loaded.policy(model.name, "")
    return made
