"""Quotas of Backends that processors share in Redis: one script decides on each call, by the server's time.

All keys of a Backend have one hash tag, for a cluster to keep them in one place, and a time to live. A place
among the calls at the same time is a lease, renewed while the call lasts.

Without Redis, a quota is counted here at this processor's share of it, which is one of as many as have asked
for that Backend lately; what went meanwhile is told to Redis when it is back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from redis.asyncio import Redis
from structlog.typing import FilteringBoundLogger

from ext_proc.answers import Clocks
from ext_proc.limits.claims import Rate
from ext_proc.providers.quota import Ask, Draft, MemoryQuotas, Wait
from ext_proc.stores.neighbour import Away
from ext_proc.stores.trips import Order, Script, Trips

PREFIX: Final = "outrigger:{quota:"
LEASE_US: Final = 30_000_000
RENEW_EVERY_S: Final = 10.0
DRAW: Final = Script("draw.lua")
SETTLE: Final = Script("settle_draft.lua")
RENEW: Final = Script("renew_places.lua")
_RATES: Final = {1: Rate.REQUESTS, 2: Rate.TOKENS, 3: Rate.CONCURRENCY}
_NO_LIMIT: Final = -1


class RedisQuotas:
    """The quotas of all processors of one Redis. For one event loop.

    Args:
        client: made by `stores.redis.connect`; whoever made it closes it, after this.
        clocks: the time of day and this process's own, now.
        log: where trouble is told, once when it begins and once when it is over.
        owner: a name that no other processor has, without spaces.
    """

    def __init__(
        self, client: Redis, clocks: Callable[[], Clocks], log: FilteringBoundLogger, owner: str
    ) -> None:
        self._owner = owner
        # All that this processor lets go, by Redis or not.
        self._own = MemoryQuotas(lambda: int(clocks().own * 1e6))
        self._trips = Trips(
            client,
            lambda: clocks().own,
            log,
            opens="Redis does not answer; each processor keeps its share of providers' quotas",
            closes="Redis is back; processors share providers' quotas",
        )
        # Told of each Backend of whose quota something has come back.
        self.on_freed: Callable[[str], None] = lambda backend: None
        self._numbers = 0
        self._askers: dict[str, int] = {}
        # By Backend: requests and tokens that Redis has not been told.
        self._owed: dict[str, tuple[int, int]] = {}
        self._holding: dict[str, Draft] = {}
        self._renewing: asyncio.Task[None] | None = None

    async def draw(self, ask: Ask) -> Draft | Wait:
        """Let a call go or tell it how long to wait."""
        if not self._trips.is_away():
            with contextlib.suppress(Away):
                return await self._ask(ask)
        drawn = self._own.decide(ask, share=1 / self._askers.get(ask.backend, 1))
        if isinstance(drawn, Wait):
            return drawn
        self._owe(ask, ask.requests, ask.tokens)
        return Draft(ask, 0, mirror=drawn)

    def charge(self, ask: Ask) -> Draft:
        """Count a call that has gone without asking; the others hear of its tokens when they are settled."""
        draft = Draft(ask, 0, holds=False, mirror=self._own.charge(ask), debt=True)
        self._add(ask, ask.requests, 0)
        return draft

    def settle(self, draft: Draft, tokens: int) -> None:
        """Count `tokens` in the place of the estimate. Only the first settlement counts."""
        if draft.open and draft.mirror is not None:
            draft.open = False
            self._own.settle(draft.mirror, tokens)
            if draft.debt:
                self._add(draft.ask, 0, tokens)
            else:
                self._correct(draft, 0, tokens - draft.ask.tokens)

    def give_back(self, draft: Draft) -> None:
        """Give back what was drawn for a call that was never sent."""
        if draft.open and draft.mirror is not None:
            draft.open = False
            self._own.give_back(draft.mirror)
            self._correct(draft, draft.ask.requests, -draft.ask.tokens)

    def release(self, draft: Draft) -> None:
        """Give the place back, once."""
        if draft.holds and draft.mirror is not None:
            draft.holds = False
            self._own.release(draft.mirror)
            if self._holding.pop(draft.name, None) is not None:
                self._tell(draft.ask, draft.at_us, 0, 0, draft.name)

    async def close(self) -> None:
        """Wait a moment for what is on its way."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        await self._trips.close()

    async def _ask(self, ask: Ask) -> Draft | Wait:
        self._numbers += 1
        name = f"{self._owner}.{self._numbers}"
        owed, quota = self._debt(ask.backend), ask.quota
        words = (
            name,
            self._owner,
            LEASE_US,
            ask.requests,
            _or_none(quota.requests_per_minute),
            ask.tokens,
            _or_none(quota.tokens_per_minute),
            _or_none(quota.concurrency),
            ask.most_us,
            *owed,
        )

        def late(reply: bytes) -> None:
            at_us, wait_us, *_ = map(int, reply.split())
            if not wait_us:
                # Meanwhile it has gone, or waits, by this processor's own count.
                self._tell(ask, at_us, ask.requests, -ask.tokens, name)

        order = Order(
            DRAW,
            _keys(ask),
            [" ".join(map(str, words))],
            hear=lambda reply: self._heard(ask, name, reply),
            late=late,
        )
        answer = self._trips.send(order).answer
        try:
            drawn: Draft | Wait = await answer
        except Away:
            self._owe(ask, *owed)
            raise
        except asyncio.CancelledError:
            if not answer.cancelled() and answer.exception() is None and isinstance(answer.result(), Draft):
                self.give_back(answer.result())
                self.release(answer.result())
            raise
        return drawn

    def _debt(self, backend: str) -> tuple[int, int]:
        """Take what Redis is to be told of: of a long outage, no more than counts still."""
        if backend not in self._owed:
            return 0, 0
        requests, tokens = self._owed.pop(backend)
        requests_used, tokens_used = self._own.used(backend)
        return min(requests, requests_used), min(tokens, tokens_used)

    def _heard(self, ask: Ask, name: str, reply: bytes) -> Draft | Wait:
        at_us, wait_us, why, fits, askers = map(int, reply.split())
        self._askers[ask.backend] = max(askers, 1)
        if wait_us:
            return Wait(wait_us / 1e6, _RATES[why], paced=bool(fits))
        draft = Draft(ask, at_us, name=name, mirror=self._own.note(ask))
        if ask.quota.concurrency is not None:
            self._holding[name] = draft
            if self._renewing is None:
                self._renewing = asyncio.get_running_loop().create_task(self._renew(), name="places")
        return draft

    def _owe(self, ask: Ask, more_requests: int, more_tokens: int) -> None:
        requests, tokens = self._owed.get(ask.backend, (0, 0))
        self._owed[ask.backend] = (requests + more_requests, tokens + more_tokens)

    def _add(self, ask: Ask, requests: int, tokens: int) -> None:
        if self._trips.is_away():
            self._owe(ask, requests, tokens)
        elif requests or tokens:
            self._tell(ask, 0, -requests, tokens, "-")

    def _correct(self, draft: Draft, requests: int, tokens: int) -> None:
        if draft.name and (requests or tokens):
            self._tell(draft.ask, draft.at_us, requests, tokens, "-")

    def _tell(self, ask: Ask, at_us: int, requests: int, tokens: int, place: str) -> None:
        words = f"{at_us} {requests} {tokens} {place}"
        # In a hurry: somebody may wait for what comes back.
        self._trips.send(Order(SETTLE, _keys(ask)[:3], [words], hear=lambda _: self.on_freed(ask.backend)))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_EVERY_S)
            held: dict[str, list[str]] = {}
            for name, draft in self._holding.items():
                held.setdefault(_keys(draft.ask)[2], []).append(name)
            for key, names in held.items():
                self._trips.send(Order(RENEW, [key], [" ".join((str(LEASE_US), *names))]))


def _or_none(limit: int | None) -> int:
    return _NO_LIMIT if limit is None else limit


def _keys(ask: Ask) -> list[str]:
    return [f"{PREFIX}{ask.backend}}}:{part}" for part in ("requests", "tokens", "places", "askers")]
