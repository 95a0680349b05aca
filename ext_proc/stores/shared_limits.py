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
from ext_proc.limits.book import SLOT_AGAIN_S, MemoryBook, worse
from ext_proc.limits.claims import (
    Account,
    Claim,
    Rate,
    Reading,
    Refusal,
    Reservation,
    Unavailable,
    Verdict,
    tightest,
)
from ext_proc.limits.window import SPAN_US
from ext_proc.stores.neighbour import Away
from ext_proc.stores.trips import Order, Script, Trips

PREFIX: Final = "outrigger:{limits}:"
ALIVE: Final = f"{PREFIX}alive"
LEASE_US: Final = 30_000_000
RENEW_EVERY_S: Final = 10.0
FRESH_US: Final = 2_000_000
REMEMBERED: Final = 4096
RESERVE: Final = Script("window.lua", "reserve.lua")
SETTLE: Final = Script("window.lua", "settle.lua")
RENEW: Final = Script("renew_limits.lua")
_NO_LIMIT: Final = -1
_NOTHING: Final = (0, 0, 0)
Readings = tuple[Reading | None, Reading | None]
# Requests and tokens to give back, and tokens to add.
Correction = tuple[int, int, int]
# What Redis has not been told yet of one account: requests and tokens of each reservation.
Untold = dict[Reservation, tuple[int, int]]


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
        self._known: dict[str, tuple[Readings, int]] = {}
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
            if len(self._untold) < REMEMBERED:
                self._untold.setdefault(claim.account.key, {})[admitted] = (claim.requests, claim.tokens)
        fallback.append(admitted)
        return verdict._replace(admitted=admitted)

    def look(self, accounts: Sequence[Account]) -> Readings:
        """Return how the tightest account stood when this processor heard of it last."""
        known = [
            heard[0] if (heard := self._known.get(account.key)) is not None else self._own.look((account,))
            for account in accounts
        ]
        return (
            tightest([requests for requests, _ in known if requests is not None]),
            tightest([tokens for _, tokens in known if tokens is not None]),
        )

    def settle(self, reservation: Reservation, tokens: int) -> None:
        """Count `tokens` in the place of those reserved. Only the first settlement or refund counts."""
        if not reservation.open or reservation.mirror is None:
            return
        reservation.open = False
        self._own.settle(reservation.mirror, tokens)
        for claim in reservation.claims:
            untold = self._untold.get(claim.account.key)
            if untold is not None and reservation in untold:
                untold[reservation] = (claim.requests, tokens)
        parts = [_settled(claim, claim.requests, tokens) for claim in reservation.claims]
        self._correct_with_the_end(reservation, parts)

    def refund(self, reservation: Reservation) -> None:
        """Give requests and tokens back. Only the first settlement or refund counts."""
        if not reservation.open or reservation.mirror is None:
            return
        reservation.open = False
        self._own.refund(reservation.mirror)
        for claim in reservation.claims:
            self._untold.get(claim.account.key, {}).pop(reservation, None)
        parts = [_settled(claim, 0, 0) for claim in reservation.claims]
        self._correct_with_the_end(reservation, parts)

    def release(self, reservation: Reservation) -> None:
        """Give the place among the calls at the same time back, once."""
        if not reservation.holds or reservation.mirror is None:
            return
        reservation.holds = False
        self._own.release(reservation.mirror)
        held = self._holding.pop(reservation.name, None) is not None
        if held or reservation.corrections:
            parts = reservation.corrections or [_NOTHING] * len(reservation.claims)
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
        arguments: list[str | int] = [name, LEASE_US]
        told = [self._untold.pop(claim.account.key, {}) for claim in claims]
        for claim, untold in zip(claims, told, strict=True):
            limits = claim.account.limits
            arguments += (
                claim.requests,
                _or_none(limits.requests_per_minute),
                claim.tokens,
                _or_none(limits.tokens_per_minute),
                int(claim.slot),
                _or_none(limits.concurrency),
                *self._sum(untold),
            )

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

        answer = self._trips.send(
            Order(RESERVE, _keys(claims), _words(arguments), hear=hear, late=late)
        ).answer
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
            readings, heard_at = self._known.get(claim.account.key, ((None, None), 0))
            if now - heard_at > FRESH_US:
                continue
            untold = self._sum(self._untold.get(claim.account.key, {}))
            for rate, reading, amount, since in zip(
                (Rate.REQUESTS, Rate.TOKENS), readings, (claim.requests, claim.tokens), untold, strict=True
            ):
                if reading is not None and amount and since + amount > int(reading.remaining * self.share):
                    wait_s = max(reading.reset_s - (now - heard_at) / 1e6, 1.0)
                    return Refusal(claim.account, rate, reading.limit, wait_s)
        return None

    def _sum(self, untold: Untold) -> tuple[int, int]:
        """Return what Redis has to be told; what is a minute old counts no more."""
        counts = [
            amounts
            for one, amounts in untold.items()
            if one.mirror is not None and one.mirror.at_us + SPAN_US > self._clock_us()
        ]
        return sum(requests for requests, _ in counts), sum(tokens for _, tokens in counts)

    def _admitted_late(
        self, claims: Sequence[Claim], at_us: int, name: str, fallback: Sequence[Reservation]
    ) -> None:
        """Take what Redis has admitted for what was admitted here meanwhile; else give it back."""
        admitted = Reservation(claims, at_us, 0)
        if not fallback:
            self._correct(admitted, [_settled(claim, 0, 0) for claim in claims], places=name)
            return
        (ours,) = fallback
        parts: list[Correction] = []
        for claim in claims:
            requests, tokens = self._untold.get(claim.account.key, {}).pop(ours, (0, 0))
            parts.append(_settled(claim, requests, tokens))
        if any(part != _NOTHING for part in parts) or not ours.holds:
            self._correct(admitted, parts, places="" if ours.holds else name)
        if all(part == _NOTHING for part in parts):
            ours.at_us, ours.name = at_us, name
        if ours.holds:
            ours.name = name
            self._hold(ours)

    def _hold(self, reservation: Reservation) -> None:
        if any(claim.slot and claim.account.limits.concurrency is not None for claim in reservation.claims):
            self._holding[reservation.name] = reservation

    def _verdict(self, claims: Sequence[Claim], reply: bytes) -> Verdict:
        now, admitted, *told = map(int, reply.split())
        worst: Refusal | None = None
        if len(self._known) > REMEMBERED:
            self._known.clear()
        for claim in claims:
            *rates, held = told[:7]
            del told[:7]
            limits = claim.account.limits
            known: list[Reading | None] = []
            for rate, limit, (used, full_at, fits_at) in (
                (Rate.REQUESTS, limits.requests_per_minute, rates[:3]),
                (Rate.TOKENS, limits.tokens_per_minute, rates[3:]),
            ):
                known.append(Reading(limit, used, max(full_at - now, 0) / 1e6) if limit is not None else None)
                if limit is not None and fits_at:
                    worst = worse(worst, Refusal(claim.account, rate, limit, max(fits_at - now, 1) / 1e6))
            if claim.slot and limits.concurrency is not None and held >= limits.concurrency:
                worst = worse(
                    worst, Refusal(claim.account, Rate.CONCURRENCY, limits.concurrency, SLOT_AGAIN_S)
                )
            self._known[claim.account.key] = ((known[0], known[1]), self._clock_us())
        requests, tokens = self.look([claim.account for claim in claims])
        if not admitted:
            return Verdict(None, worst, requests, tokens)
        return Verdict(Reservation(claims, now, max(one.tokens for one in claims)), None, requests, tokens)

    def _correct_with_the_end(self, reservation: Reservation, parts: Sequence[Correction]) -> None:
        """Tell Redis when the call ends, which is soon, so that one script does both."""
        if not reservation.name:
            return
        if reservation.holds and any(claim.slot for claim in reservation.claims):
            reservation.corrections = parts
        else:
            self._correct(reservation, parts)

    def _correct(self, reservation: Reservation, parts: Sequence[Correction], *, places: str = "") -> None:
        if not places and all(part == _NOTHING for part in parts):
            return
        arguments: list[str | int] = [reservation.at_us, places or "-"]
        for part in parts:
            arguments += part
        self._trips.send(Order(SETTLE, _keys(reservation.claims), _words(arguments)), hurry=False)

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
                if claim.slot and claim.account.limits.concurrency is not None:
                    places.setdefault(_places(claim.account), []).append(name)
        arguments: list[str | int] = [self._owner, LEASE_US, 0]
        for names in places.values():
            arguments += (len(names), *names)
        order = self._trips.send(Order(RENEW, [ALIVE, *places], arguments))
        self._alive = max(await order.answer, 1)


def _settled(claim: Claim, requests: int, tokens: int) -> Correction:
    """Return what is to be corrected of `claim` when so much of it was used."""
    limited = claim.account.limits.tokens_per_minute is not None
    over = tokens - claim.tokens if limited else 0
    return max(claim.requests - requests, 0), max(-over, 0), max(over, 0)


def _or_none(limit: int | None) -> int:
    return _NO_LIMIT if limit is None else limit


def _words(arguments: Sequence[str | int]) -> list[str]:
    return [" ".join(map(str, arguments))]


def _keys(claims: Sequence[Claim]) -> list[str]:
    keys: list[str] = []
    for claim in claims:
        keys += (f"{PREFIX}{claim.account.key}", _places(claim.account))
    return keys


def _places(account: Account) -> str:
    return f"{PREFIX}places:{account.key}"
