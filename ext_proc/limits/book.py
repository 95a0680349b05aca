"""Limits of one processor, in memory: exact, since nothing else happens between a look and its entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ext_proc.limits.claims import Account, Claim, Rate, Reading, Refusal, Reservation, Verdict
from ext_proc.limits.window import Window

SLOT_AGAIN_S: Final = 1.0
"""When a call that found all places taken may ask again: nobody knows when one is free."""
SWEEP_FROM: Final = 1024
"""From so many accounts on, those that nobody uses are forgotten now and then."""


class Standing:
    """What one account has used."""

    __slots__ = ("held", "requests", "tokens")

    def __init__(self) -> None:
        self.requests = Window()
        self.tokens = Window()
        self.held = 0

    def pass_time(self, now: int) -> None:
        """Let go what is a minute old."""
        self.requests.pass_time(now)
        self.tokens.pass_time(now)


class MemoryBook:
    """The accounts of one processor. `clock_us` is a monotonic time in whole microseconds."""

    def __init__(self, clock_us: Callable[[], int]) -> None:
        self._clock_us = clock_us
        self._standings: dict[str, Standing] = {}
        self._sweep_at = SWEEP_FROM

    def __len__(self) -> int:
        return len(self._standings)

    async def reserve(self, claims: Sequence[Claim], *, refuse_on_loss: bool = False) -> Verdict:
        """Admit the call to all accounts or to none. Memory is never lost."""
        return self.decide(claims)

    def decide(self, claims: Sequence[Claim], *, share: float = 1.0) -> Verdict:
        """Admit the call to all accounts or to none; of each limit, only a `share` is there."""
        now = self._begin()
        standings = [self._standing(claim.account.key, now) for claim in claims]
        refusal, reservation = None, None
        for claim, standing in zip(claims, standings, strict=True):
            if not _fits(claim, standing, share):
                refusal = _worst_refusal(claims, standings, now, share)
                break
        else:
            reservation = self._enter(claims, standings, now)
        requests, tokens = _readings([claim.account for claim in claims], standings, now)
        return Verdict(reservation, refusal, requests, tokens)

    def note(self, claims: Sequence[Claim]) -> Reservation:
        """Count a call that was admitted elsewhere."""
        now = self._begin()
        return self._enter(claims, [self._standing(claim.account.key, now) for claim in claims], now)

    def look(self, accounts: Sequence[Account]) -> tuple[Reading | None, Reading | None]:
        """Return how the tightest of `accounts` stands with requests and with tokens."""
        now = self._clock_us()
        return _readings(accounts, [self._standing(account.key, now) for account in accounts], now)

    def settle(self, reservation: Reservation, tokens: int) -> None:
        """Count `tokens` in the place of those reserved. Only the first settlement or refund counts."""
        if not reservation.open:
            return
        reservation.open = False
        for claim in reservation.claims:
            if tokens == claim.tokens or claim.account.limits.tokens_per_minute is None:
                continue
            if tokens > claim.tokens:
                now = self._clock_us()
                self._standing(claim.account.key, now).tokens.add(now, tokens - claim.tokens)
            elif (standing := self._standings.get(claim.account.key)) is not None:
                standing.tokens.take_back(reservation.at_us, claim.tokens - tokens)

    def refund(self, reservation: Reservation) -> None:
        """Give requests and tokens back. Only the first settlement or refund counts."""
        if not reservation.open:
            return
        reservation.open = False
        for claim in reservation.claims:
            standing = self._standings.get(claim.account.key)
            if standing is not None:
                standing.requests.take_back(reservation.at_us, claim.requests)
                standing.tokens.take_back(reservation.at_us, claim.tokens)

    def release(self, reservation: Reservation) -> None:
        """Give the place among the calls at the same time back, once."""
        if not reservation.holds:
            return
        reservation.holds = False
        for claim in reservation.claims:
            standing = self._standings.get(claim.account.key)
            if claim.slot and standing is not None:
                standing.held -= 1

    def _standing(self, key: str, now: int) -> Standing:
        found = self._standings.get(key)
        if found is None:
            found = self._standings[key] = Standing()
        else:
            found.pass_time(now)
        return found

    def _begin(self) -> int:
        """Return the time. Accounts are forgotten here only, where nobody holds one."""
        now = self._clock_us()
        if len(self._standings) >= self._sweep_at:
            self._sweep(now)
        return now

    def _sweep(self, now: int) -> None:
        for key, standing in list(self._standings.items()):
            standing.pass_time(now)
            if not (standing.held or standing.requests.used or standing.tokens.used):
                del self._standings[key]
        self._sweep_at = max(SWEEP_FROM, 2 * len(self._standings))

    def _enter(self, claims: Sequence[Claim], standings: Sequence[Standing], now: int) -> Reservation:
        tokens = 0
        for claim, standing in zip(claims, standings, strict=True):
            limits = claim.account.limits
            if claim.requests and limits.requests_per_minute is not None:
                standing.requests.add(now, claim.requests)
            if claim.tokens and limits.tokens_per_minute is not None:
                standing.tokens.add(now, claim.tokens)
            if claim.slot:
                standing.held += 1
            tokens = max(tokens, claim.tokens)
        return Reservation(claims, now, tokens)


def _fits(claim: Claim, standing: Standing, share: float) -> bool:
    limits = claim.account.limits
    places = limits.concurrency
    return (
        _has_room(standing.requests.used, claim.requests, limits.requests_per_minute, share)
        and _has_room(standing.tokens.used, claim.tokens, limits.tokens_per_minute, share)
        and (places is None or not claim.slot or standing.held < shared_limit(places, share))
    )


def _has_room(used: int, amount: int, limit: int | None, share: float) -> bool:
    if limit is None or not amount:
        return True
    limit = shared_limit(limit, share)
    # What is more than the limit fits when nothing is used.
    return used + amount <= limit or (used == 0 and amount > limit)


def _worst_refusal(
    claims: Sequence[Claim], standings: Sequence[Standing], now: int, share: float
) -> Refusal | None:
    """Return what is in the way for the longest time."""
    worst: Refusal | None = None
    for claim, standing in zip(claims, standings, strict=True):
        limits = claim.account.limits
        for rate, window, amount, limit in (
            (Rate.REQUESTS, standing.requests, claim.requests, limits.requests_per_minute),
            (Rate.TOKENS, standing.tokens, claim.tokens, limits.tokens_per_minute),
        ):
            if limit is None or not amount:
                continue
            fits_at = window.fits_at(amount, shared_limit(limit, share))
            if fits_at:
                worst = worse(worst, Refusal(claim.account, rate, limit, max(fits_at - now, 1) / 1e6))
        places = limits.concurrency
        if claim.slot and places is not None and standing.held >= shared_limit(places, share):
            worst = worse(worst, Refusal(claim.account, Rate.CONCURRENCY, places, SLOT_AGAIN_S))
    return worst


def worse(one: Refusal | None, other: Refusal) -> Refusal:
    """Return the refusal with the longer wait."""
    return other if one is None or other.wait_s > one.wait_s else one


def shared_limit(limit: int, share: float) -> int:
    """Return the whole part of `limit` that one of several may use by itself: at least 1."""
    return limit if share >= 1.0 else max(int(limit * share), 1)


def _readings(
    accounts: Sequence[Account], standings: Sequence[Standing], now: int
) -> tuple[Reading | None, Reading | None]:
    """Return how the account with the least left stands with each rate."""
    requests: tuple[int, int, Window] | None = None
    tokens: tuple[int, int, Window] | None = None
    for account, standing in zip(accounts, standings, strict=True):
        limit = account.limits.requests_per_minute
        if limit is not None:
            left = limit - standing.requests.used
            if requests is None or left < requests[0]:
                requests = left, limit, standing.requests
        limit = account.limits.tokens_per_minute
        if limit is not None:
            left = limit - standing.tokens.used
            if tokens is None or left < tokens[0]:
                tokens = left, limit, standing.tokens
    return _reading(requests, now), _reading(tokens, now)


def _reading(found: tuple[int, int, Window] | None, now: int) -> Reading | None:
    if found is None:
        return None
    _, limit, window = found
    return Reading(limit, window.used, max(window.full_again_us() - now, 0) / 1e6)
