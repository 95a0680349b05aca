"""Limits of one processor, in memory: exact, since nothing else happens between a look and its entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ext_proc.limits.claims import Account, Claim, Rate, Reading, Refusal, Reservation, Verdict, tightest
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
        worst: Refusal | None = None
        for claim, standing in zip(claims, standings, strict=True):
            refusal = _refusal(claim, standing, now, share)
            if refusal is not None and (worst is None or refusal.wait_s > worst.wait_s):
                worst = refusal
        reservation = None
        if worst is None:
            reservation = self._enter(claims, standings, now)
        requests, tokens = _readings(claims, standings, now)
        return Verdict(reservation, worst, requests, tokens)

    def note(self, claims: Sequence[Claim]) -> Reservation:
        """Count a call that was admitted elsewhere."""
        now = self._begin()
        return self._enter(claims, [self._standing(claim.account.key, now) for claim in claims], now)

    def look(self, accounts: Sequence[Account]) -> tuple[Reading | None, Reading | None]:
        """Return how the tightest of `accounts` stands with requests and with tokens."""
        now = self._clock_us()
        claims = [Claim(account, 0, 0, slot=False) for account in accounts]
        return _readings(claims, [self._standing(account.key, now) for account in accounts], now)

    def settle(self, reservation: Reservation, tokens: int) -> None:
        """Count `tokens` in the place of those reserved. Only the first settlement or refund counts."""
        if not reservation.open:
            return
        reservation.open = False
        now = self._clock_us()
        for claim in reservation.claims:
            if claim.account.limits.tokens_per_minute is None:
                continue
            window = self._standing(claim.account.key, now).tokens
            if tokens > claim.tokens:
                window.add(now, tokens - claim.tokens)
            else:
                window.take_back(reservation.at_us, claim.tokens - tokens)

    def refund(self, reservation: Reservation) -> None:
        """Give requests and tokens back. Only the first settlement or refund counts."""
        if not reservation.open:
            return
        reservation.open = False
        now = self._clock_us()
        for claim in reservation.claims:
            standing = self._standing(claim.account.key, now)
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


def _refusal(claim: Claim, standing: Standing, now: int, share: float) -> Refusal | None:
    limits = claim.account.limits
    found: Refusal | None = None
    if claim.slot and limits.concurrency is not None:
        limit = shared_limit(limits.concurrency, share)
        if standing.held >= limit:
            found = Refusal(claim.account, Rate.CONCURRENCY, limits.concurrency, SLOT_AGAIN_S)
    for rate, window, amount, per_minute in (
        (Rate.REQUESTS, standing.requests, claim.requests, limits.requests_per_minute),
        (Rate.TOKENS, standing.tokens, claim.tokens, limits.tokens_per_minute),
    ):
        if per_minute is None or amount == 0:
            continue
        fits_at = window.fits_at(amount, shared_limit(per_minute, share))
        if fits_at:
            wait_s = max(fits_at - now, 1) / 1e6
            if found is None or wait_s > found.wait_s:
                found = Refusal(claim.account, rate, per_minute, wait_s)
    return found


def shared_limit(limit: int, share: float) -> int:
    """Return the whole part of `limit` that one of several may use by itself: at least 1."""
    return limit if share >= 1.0 else max(int(limit * share), 1)


def _readings(
    claims: Sequence[Claim], standings: Sequence[Standing], now: int
) -> tuple[Reading | None, Reading | None]:
    requests: list[Reading] = []
    tokens: list[Reading] = []
    for claim, standing in zip(claims, standings, strict=True):
        limits = claim.account.limits
        if limits.requests_per_minute is not None:
            requests.append(_reading(standing.requests, limits.requests_per_minute, now))
        if limits.tokens_per_minute is not None:
            tokens.append(_reading(standing.tokens, limits.tokens_per_minute, now))
    return tightest(requests), tightest(tokens)


def _reading(window: Window, limit: int, now: int) -> Reading:
    return Reading(limit, window.used, max(window.full_again_us() - now, 0) / 1e6)
