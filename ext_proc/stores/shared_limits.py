"""Limits that processors share in Redis: one script decides on all accounts of a call, by the server's time.

All keys have one hash tag, for a cluster to keep them in one place, and a time to live. A place among the
calls at the same time is a lease, renewed while the call lasts.

Without Redis, limits are counted here at this processor's share of them, which is one of as many as there
were last; what was admitted meanwhile is told to Redis when it is back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final

from redis.asyncio import Redis
from structlog.typing import FilteringBoundLogger

from ext_proc.answers import Clocks
from ext_proc.contract.uses import Uses
from ext_proc.limits.book import MemoryBook
from ext_proc.limits.claims import (
    DAY_TOKENS,
    Account,
    Claim,
    Load,
    Rate,
    Reading,
    Refusal,
    Reservation,
    Unavailable,
    Verdict,
    tightest,
)
from ext_proc.limits.window import DAY_US, SPAN_US
from ext_proc.stores.limit_words import (
    NOTHING,
    PREFIX,
    Amounts,
    Correction,
    Shape,
    Told,
    corrections_of,
    read_verdict,
)
from ext_proc.stores.neighbour import Away
from ext_proc.stores.trips import Order, Script, Trips

ALIVE: Final = f"{PREFIX}alive"
LEASE_US: Final = 30_000_000
RENEW_EVERY_S: Final = 10.0
FRESH_US: Final = 2_000_000
REMEMBERED: Final = 4096
UNTOLD_OF_ONE: Final = 65_536
RESERVE: Final = Script("window.lua", "reserve.lua")
SETTLE: Final = Script("window.lua", "settle.lua")
RENEW: Final = Script("renew_limits.lua")
Readings = tuple[Reading | None, Reading | None]
# What Redis has not been told yet of one account, of each reservation.
Untold = dict[Reservation, Amounts]


class RedisBook:
    """The accounts of all processors of one Redis. For one event loop.

    Args:
        client: made by `stores.redis.connect`; whoever made it closes it, after this.
        clocks: the time of day and this process's own, now.
        log: where trouble is told, once when it begins and once when it is over.
        owner: a name that no other processor has.
    """

    def __init__(
        self, client: Redis, clocks: Callable[[], Clocks], log: FilteringBoundLogger, owner: str
    ) -> None:
        self._owner = owner
        self._clock_us: Callable[[], int] = lambda: int(clocks().own * 1e6)
        # All that this processor admits, by Redis or not.
        self._own = MemoryBook(self._clock_us)
        self._trips = Trips(
            client,
            lambda: clocks().own,
            log,
            opens="Redis does not answer; each processor counts limits by itself",
            closes="Redis is back; processors share limits",
        )
        self._numbers = 0
        self._alive = 1
        self._holding: dict[str, Reservation] = {}
        self._untold: dict[str, Untold] = {}
        self._known: dict[str, tuple[Told, int]] = {}
        self._shapes: dict[str, Shape] = {}
        self._renewing: asyncio.Task[None] | None = None

    @property
    def share(self) -> float:
        """What of each limit this processor may use by itself."""
        return 1 / self._alive

    async def reserve(self, claims: Sequence[Claim], *, refuse_on_loss: bool = False) -> Verdict:
        """Admit the call to all accounts or to none.

        Raises:
            Unavailable: Redis does not answer, and the call is to be refused then.
        """
        if self._renewing is None:
            self._renewing = asyncio.get_running_loop().create_task(self._renew(), name="limits alive")
        fallback: list[Reservation] = []
        if not self._trips.is_away():
            with contextlib.suppress(Away):
                return await self._ask(claims, fallback)
        if refuse_on_loss:
            raise Unavailable
        refusal = self._lately_full(claims)
        if refusal is not None:
            return Verdict(None, refusal, *self.look([claim.account for claim in claims]))
        verdict = self._own.decide(claims, share=self.share)
        if verdict.admitted is None:
            return verdict
        admitted = Reservation(claims, 0, verdict.admitted.tokens, mirror=verdict.admitted)
        for claim in claims:
            self._remember(claim, admitted)
        fallback.append(admitted)
        return verdict._replace(admitted=admitted)

    def look(self, accounts: Sequence[Account]) -> Readings:
        """Return how the tightest account stood when this processor heard of it last."""
        known: list[Readings] = []
        for account in accounts:
            heard = self._known.get(account.key)
            known.append(self._own.look((account,)) if heard is None else heard[0][:2])
        return (
            tightest([requests for requests, _ in known if requests is not None]),
            tightest([tokens for _, tokens in known if tokens is not None]),
        )

    def load(self, account: Account) -> Load:
        """Return the largest shares of the account's limits in use, as far as is known here."""
        told, heard_at = self._known.get(account.key, (None, 0))
        own = self._own.load(account)
        if told is None or self._clock_us() - heard_at > FRESH_US:
            return Load(own.now, max(own.day, told.load.day if told is not None else 0.0))
        return Load(max(own.now, told.load.now), max(own.day, told.load.day))

    def uses(self) -> Uses:
        """Return what accounts have used of what this processor admitted, those that used most."""
        return self._own.uses()

    def settle(self, reservation: Reservation, tokens: int, cost: int = 0) -> None:
        """Count `tokens` and `cost` in the place of what was reserved.

        Only the first settlement or refund counts.
        """
        if not reservation.open or reservation.mirror is None:
            return
        reservation.open = False
        self._own.settle(reservation.mirror, tokens, cost)
        for claim in reservation.claims:
            untold = self._untold.get(claim.account.key)
            if untold is not None and reservation in untold:
                untold[reservation] = Amounts(claim.requests, tokens, cost)
        parts = [corrections_of(claim, Amounts(claim.requests, tokens, cost)) for claim in reservation.claims]
        self._correct_with_the_end(reservation, parts)

    def refund(self, reservation: Reservation) -> None:
        """Give all but the place back. Only the first settlement or refund counts."""
        if not reservation.open or reservation.mirror is None:
            return
        reservation.open = False
        self._own.refund(reservation.mirror)
        for claim in reservation.claims:
            self._untold.get(claim.account.key, {}).pop(reservation, None)
        parts = [corrections_of(claim, NOTHING) for claim in reservation.claims]
        self._correct_with_the_end(reservation, parts)

    def release(self, reservation: Reservation) -> None:
        """Give the place among the calls at the same time back, once."""
        if not reservation.holds or reservation.mirror is None:
            return
        reservation.holds = False
        self._own.release(reservation.mirror)
        held = self._holding.pop(reservation.name, None) is not None
        if held or reservation.corrections:
            parts = reservation.corrections or [()] * len(reservation.claims)
            self._correct(reservation, parts, places=reservation.name if held else "")
            reservation.corrections = ()

    async def close(self) -> None:
        """Say that this processor ends, and wait a moment for what is on its way."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
            self._trips.send(Order(RENEW, [ALIVE], [self._owner, LEASE_US, 1]))
        await self._trips.close()

    async def _ask(self, claims: Sequence[Claim], fallback: Sequence[Reservation]) -> Verdict:
        """Let Redis decide. A late answer is for what was admitted as a `fallback`, if anything."""
        self._numbers += 1
        name = f"{self._owner}.{self._numbers}"
        told = [self._untold.pop(claim.account.key, {}) for claim in claims]
        words, keys = [f"{name} {LEASE_US}"], list[str]()
        for claim, untold in zip(claims, told, strict=True):
            more, of = self._shape(claim.account).reserved(claim, self._sum(untold) if untold else NOTHING)
            words.append(more)
            keys += of

        def late(reply: bytes) -> None:
            at_us, admitted, *_ = map(int, reply.split())
            if admitted:
                self._admitted_late(claims, at_us, name, fallback)

        def hear(reply: bytes) -> Verdict:
            # At once: what this processor decides by itself the moment after counts on it.
            verdict = self._verdict(claims, reply)
            if verdict.admitted is not None:
                verdict.admitted.name = name
                verdict.admitted.mirror = self._own.note(claims)
                self._hold(verdict.admitted)
            return verdict

        answer = self._trips.send(Order(RESERVE, keys, [" ".join(words)], hear=hear, late=late)).answer
        try:
            found: Verdict = await answer
        except Away:
            for claim, untold in zip(claims, told, strict=True):
                if untold:
                    self._untold.setdefault(claim.account.key, {}).update(untold)
            raise
        except asyncio.CancelledError:
            if not answer.cancelled() and answer.exception() is None:
                self._left(answer.result())
            raise
        return found

    def _left(self, verdict: Verdict) -> None:
        """Give back what was decided for a caller who had gone."""
        if verdict.admitted is not None:
            self.refund(verdict.admitted)
            self.release(verdict.admitted)

    def _lately_full(self, claims: Sequence[Claim]) -> Refusal | None:
        """Return what Redis would refuse by its last word, when that is fresh: it may only be slow."""
        now = self._clock_us()
        for claim in claims:
            told, heard_at = self._known.get(claim.account.key, (None, 0))
            if told is None or now - heard_at > FRESH_US:
                continue
            since = self._sum(self._untold.get(claim.account.key, {}))
            for rate, reading, amount, more in (
                (Rate.REQUESTS, told.requests, claim.requests, since.requests),
                (Rate.TOKENS, told.tokens, claim.tokens, since.tokens),
            ):
                if reading is not None and amount and more + amount > int(reading.remaining * self.share):
                    wait_s = max(reading.reset_s - (now - heard_at) / 1e6, 1.0)
                    return Refusal(claim.account, rate, reading.limit, wait_s)
        return None

    def _remember(self, claim: Claim, admitted: Reservation) -> None:
        """Keep what Redis is to be told of, as long as it counts; of a long outage the latest."""
        if len(self._untold) >= REMEMBERED and claim.account.key not in self._untold:
            return
        untold = self._untold.setdefault(claim.account.key, {})
        untold[admitted] = _claimed(claim)
        counts_from = self._clock_us() - _span_us((claim,))
        while untold:
            oldest = next(iter(untold))
            counts = oldest.mirror is None or oldest.mirror.at_us > counts_from
            if counts and len(untold) <= UNTOLD_OF_ONE:
                return
            del untold[oldest]

    def _sum(self, untold: Untold) -> Amounts:
        """Return what Redis has to be told; what is over counts no more."""
        now = self._clock_us()
        counts = [
            amounts
            for one, amounts in untold.items()
            if one.mirror is not None and one.mirror.at_us + _span_us(one.claims) > now
        ]
        return Amounts(*map(sum, zip(*counts, strict=True))) if counts else NOTHING

    def _shape(self, account: Account) -> Shape:
        found = self._shapes.get(account.key)
        if found is None or found.account is not account:
            if len(self._shapes) > REMEMBERED:
                self._shapes.clear()
            found = self._shapes[account.key] = Shape(account)
        return found

    def _admitted_late(
        self, claims: Sequence[Claim], at_us: int, name: str, fallback: Sequence[Reservation]
    ) -> None:
        """Take what Redis has admitted for what was admitted here meanwhile; else give it back."""
        admitted = Reservation(claims, at_us, 0)
        if not fallback:
            self._correct(admitted, [corrections_of(claim, NOTHING) for claim in claims], places=name)
            return
        (ours,) = fallback
        parts = [
            corrections_of(claim, self._untold.get(claim.account.key, {}).pop(ours, NOTHING))
            for claim in claims
        ]
        if any(parts) or not ours.holds:
            self._correct(admitted, parts, places="" if ours.holds else name)
        if not any(parts):
            ours.at_us, ours.name = at_us, name
        if ours.holds:
            ours.name = name
            self._hold(ours)

    def _hold(self, reservation: Reservation) -> None:
        if any(claim.slot and claim.account.places is not None for claim in reservation.claims):
            self._holding[reservation.name] = reservation

    def _verdict(self, claims: Sequence[Claim], reply: bytes) -> Verdict:
        admitted, refusal, told = read_verdict(claims, reply)
        if len(self._known) > REMEMBERED:
            self._known.clear()
        now = self._clock_us()
        for claim, stands in zip(claims, told, strict=True):
            self._known[claim.account.key] = stands, now
        if len(told) == 1:
            return Verdict(admitted, refusal, told[0].requests, told[0].tokens)
        requests = tightest([stands.requests for stands in told if stands.requests is not None])
        tokens = tightest([stands.tokens for stands in told if stands.tokens is not None])
        return Verdict(admitted, refusal, requests, tokens)

    def _correct_with_the_end(self, reservation: Reservation, parts: Sequence[Sequence[Correction]]) -> None:
        """Tell Redis when the call ends, which is soon, so that one script does both."""
        if not reservation.name:
            return
        if reservation.holds and any(claim.slot for claim in reservation.claims):
            reservation.corrections = parts
        else:
            self._correct(reservation, parts)

    def _correct(
        self, reservation: Reservation, parts: Sequence[Sequence[Correction]], *, places: str = ""
    ) -> None:
        if not places and not any(parts):
            return
        words, keys = [f"{reservation.at_us} {places or '-'}"], list[str]()
        for claim, part in zip(reservation.claims, parts, strict=True):
            with_place = bool(places) and claim.slot
            if not part and not with_place:
                continue
            more, of = self._shape(claim.account).corrected(part, places=with_place)
            words.append(more)
            keys += of
        if keys:
            self._trips.send(Order(SETTLE, keys, [" ".join(words)]), hurry=False)

    async def _renew(self) -> None:
        while True:
            with contextlib.suppress(Away):
                await self._renewed()
            await asyncio.sleep(RENEW_EVERY_S)

    async def _renewed(self) -> None:
        """Say that this processor lives and which places it holds; learn how many live. Raises Away."""
        places: dict[str, list[str]] = {}
        for name, reservation in self._holding.items():
            for claim in reservation.claims:
                if claim.slot and claim.account.places is not None:
                    places.setdefault(self._shape(claim.account).places, []).append(name)
        arguments: list[str | int] = [self._owner, LEASE_US, 0]
        for names in places.values():
            arguments += (len(names), *names)
        order = self._trips.send(Order(RENEW, [ALIVE, *places], arguments))
        self._alive = max(await order.answer, 1)


def _claimed(claim: Claim) -> Amounts:
    return Amounts(claim.requests, claim.tokens, claim.cost)


def _span_us(claims: Sequence[Claim]) -> int:
    """Return how long any of the claims counts."""
    for claim in claims:
        if any(bound.window >= DAY_TOKENS for bound in claim.account.bounds):
            return DAY_US
    return SPAN_US
