"""Limits of one processor, in memory: exact, since nothing else happens between a look and its entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ext_proc.contract.uses import Uses
from ext_proc.limits.claims import (
    DAY_COST,
    DAY_TOKENS,
    REQUESTS,
    TOKENS,
    Account,
    Claim,
    Load,
    Reading,
    Refusal,
    Reservation,
    Verdict,
)
from ext_proc.limits.survey import Survey
from ext_proc.limits.window import DAY_SLICE_US, DAY_US, SLICE_US, SPAN_US, Window

SLOT_AGAIN_S: Final = 1.0
"""When a call that found all places taken may ask again: nobody knows when one is free."""
SWEEP_FROM: Final = 1024
"""From so many accounts on, those that nobody uses are forgotten now and then."""
_SPANS: Final = ((SPAN_US, SLICE_US), (SPAN_US, SLICE_US), (DAY_US, DAY_SLICE_US), (DAY_US, DAY_SLICE_US))


class Standing:
    """What one account has used: its windows, by their number in `Bound`, and the calls that go on.

    `asked` is when callers of each rank asked last (see `priorities`).
    """

    __slots__ = ("asked", "held", "windows")

    def __init__(self) -> None:
        self.windows: list[Window | None] = [None, None, None, None]
        self.held = 0
        self.asked: dict[int, int] | None = None

    def window(self, number: int) -> Window:
        """Return the window, made when it is needed first."""
        found = self.windows[number]
        if found is None:
            found = self.windows[number] = Window(*_SPANS[number])
        return found

    def pass_time(self, now: int) -> bool:
        """Let go what is over; return whether anything is in use."""
        used = self.held > 0
        for window in self.windows:
            if window is not None:
                window.pass_time(now)
                used = used or window.used > 0
        return used

    def asks(self, rank: int, now: int) -> bool:
        """Note a caller of `rank`; return whether one above it asked within a minute."""
        if self.asked is None:
            self.asked = {}
        self.asked[rank] = now
        return any(other < rank and at + SPAN_US > now for other, at in self.asked.items())


class MemoryBook:
    """The accounts of one processor. `clock_us` is a monotonic time in whole microseconds."""

    def __init__(self, clock_us: Callable[[], int]) -> None:
        self._clock_us = clock_us
        self._standings: dict[str, Standing] = {}
        self._sweep_at = SWEEP_FROM
        self._survey = Survey()

    def __len__(self) -> int:
        return len(self._standings)

    async def reserve(self, claims: Sequence[Claim], *, refuse_on_loss: bool = False) -> Verdict:
        """Admit the call to all accounts or to none. Memory is never lost."""
        return self.decide(claims)

    def decide(self, claims: Sequence[Claim], *, share: float = 1.0) -> Verdict:
        """Admit the call to all accounts or to none; of each limit, only a `share` is there."""
        now = self._begin()
        standings: list[Standing] = []
        fits = True
        for claim in claims:
            account = claim.account
            standing = self._standing(account, now)
            standings.append(standing)
            asked = account.shedding is not None and standing.asks(account.shedding.rank, now)
            if fits:
                fits = _fits(claim, standing, asked, share)
        if fits:
            refusal, reservation = None, self._enter(claims, standings, now)
        else:
            refusal, reservation = _worst_refusal(claims, standings, now, share), None
        requests, tokens = _readings(claims, standings, now)
        return Verdict(reservation, refusal, requests, tokens)

    def note(self, claims: Sequence[Claim]) -> Reservation:
        """Count a call that was admitted elsewhere."""
        now = self._begin()
        return self._enter(claims, [self._standing(claim.account, now) for claim in claims], now)

    def look(self, accounts: Sequence[Account]) -> tuple[Reading | None, Reading | None]:
        """Return how the tightest of `accounts` stands with requests and with tokens."""
        now = self._clock_us()
        standings = [self._standing(account, now) for account in accounts]
        return _readings([Claim(account) for account in accounts], standings, now)

    def load(self, account: Account) -> Load:
        """Return the largest shares of the account's limits that are in use."""
        standing = self._standing(account, self._clock_us())
        places = account.places
        now = standing.held / places.limit if places is not None else 0.0
        day = 0.0
        for bound in account.bounds:
            share = standing.window(bound.window).used / bound.limit
            if bound.window >= DAY_TOKENS:
                day = max(day, share)
            else:
                now = max(now, share)
        return Load(now, day)

    def uses(self) -> Uses:
        """Return what accounts have used, those that used most."""
        return self._survey.look(self._standings, self._clock_us())

    def settle(self, reservation: Reservation, tokens: int, cost: int = 0) -> None:
        """Count `tokens` and `cost` in the place of what was reserved.

        Only the first settlement or refund counts.
        """
        if not reservation.open:
            return
        reservation.open = False
        for claim in reservation.claims:
            for bound in claim.account.bounds:
                number = bound.window
                if number == REQUESTS:
                    continue
                reserved, used = claim.of(number), cost if number == DAY_COST else tokens
                if used > reserved:
                    now = self._clock_us()
                    self._standing(claim.account, now).window(number).add(now, used - reserved)
                elif used < reserved:
                    self._take_back(claim, number, reservation.at_us, reserved - used)

    def refund(self, reservation: Reservation) -> None:
        """Give all but the place back. Only the first settlement or refund counts."""
        if not reservation.open:
            return
        reservation.open = False
        for claim in reservation.claims:
            for bound in claim.account.bounds:
                self._take_back(claim, bound.window, reservation.at_us, claim.of(bound.window))

    def release(self, reservation: Reservation) -> None:
        """Give the place among the calls at the same time back, once."""
        if not reservation.holds:
            return
        reservation.holds = False
        for claim in reservation.claims:
            standing = self._standings.get(claim.account.key)
            if claim.slot and standing is not None:
                standing.held -= 1

    def _take_back(self, claim: Claim, number: int, at_us: int, amount: int) -> None:
        standing = self._standings.get(claim.account.key)
        window = standing.windows[number] if standing is not None else None
        if window is not None and amount:
            window.take_back(at_us, amount)

    def _standing(self, account: Account, now: int) -> Standing:
        """Return how the account stands now, with a window for each of its limits."""
        found = self._standings.get(account.key)
        if found is None:
            found = self._standings[account.key] = Standing()
        windows = found.windows
        for bound in account.bounds:
            window = windows[bound[0]]
            if window is None:
                found.window(bound[0])
            else:
                window.pass_time(now)
        return found

    def _begin(self) -> int:
        """Return the time. Accounts are forgotten here only, where nobody holds one."""
        now = self._clock_us()
        if len(self._standings) >= self._sweep_at:
            self._sweep(now)
        return now

    def _sweep(self, now: int) -> None:
        for key, standing in list(self._standings.items()):
            if not standing.pass_time(now):
                del self._standings[key]
        self._sweep_at = max(SWEEP_FROM, 2 * len(self._standings))

    def _enter(self, claims: Sequence[Claim], standings: Sequence[Standing], now: int) -> Reservation:
        most = 0
        for (account, requests, tokens, slot, cost), standing in zip(claims, standings, strict=True):
            windows = standing.windows
            for number, *_ in account.bounds:
                amount = requests if number == REQUESTS else cost if number == DAY_COST else tokens
                window = windows[number]
                if amount and window is not None:
                    window.add(now, amount)
            if slot:
                standing.held += 1
            most = max(most, tokens)
        return Reservation(claims, now, most)


def _fits(claim: Claim, standing: Standing, asked: bool, share: float) -> bool:
    account, requests, tokens, slot, cost = claim
    windows = standing.windows
    for number, _, idle, low, _ in account.bounds:
        amount = requests if number == REQUESTS else cost if number == DAY_COST else tokens
        window = windows[number]
        if not amount or window is None:
            continue
        limit, used = low if asked else idle, window.used
        if share < 1.0:
            limit = shared_limit(limit, share)
        # What is more than the limit fits when nothing is used.
        if used + amount > limit and (used or amount <= limit):
            return False
    places = account.places
    return (
        places is None
        or not slot
        or standing.held < shared_limit(places.asked if asked else places.idle, share)
    )


def _worst_refusal(
    claims: Sequence[Claim], standings: Sequence[Standing], now: int, share: float
) -> Refusal | None:
    """Return what is in the way for the longest time."""
    worst: Refusal | None = None
    for claim, standing in zip(claims, standings, strict=True):
        account = claim.account
        asked = account.shedding is not None and standing.asks(account.shedding.rank, now)
        for bound in account.bounds:
            amount, window = claim.of(bound.window), standing.window(bound.window)
            if not amount:
                continue
            fits_at = window.fits_at(amount, shared_limit(bound.asked if asked else bound.idle, share))
            if fits_at:
                shed = not window.fits_at(amount, shared_limit(bound.limit, share))
                wait_s = max(fits_at - now, 1) / 1e6
                worst = worse(worst, Refusal(account, bound.rate, bound.limit, wait_s, shed))
        places = account.places
        if places is not None and claim.slot:
            most = shared_limit(places.asked if asked else places.idle, share)
            if standing.held >= most:
                shed = standing.held < shared_limit(places.limit, share)
                worst = worse(worst, Refusal(account, places.rate, places.limit, SLOT_AGAIN_S, shed))
    return worst


def worse(one: Refusal | None, other: Refusal) -> Refusal:
    """Return the refusal with the longer wait."""
    return other if one is None or other.wait_s > one.wait_s else one


def shared_limit(limit: int, share: float) -> int:
    """Return the whole part of `limit` that one of several may use by itself: at least 1."""
    return limit if share >= 1.0 else max(int(limit * share), 1)


def _readings(
    claims: Sequence[Claim], standings: Sequence[Standing], now: int
) -> tuple[Reading | None, Reading | None]:
    """Return how the account with the least left stands with each rate of a minute."""
    requests: tuple[int, int, Window] | None = None
    tokens: tuple[int, int, Window] | None = None
    for claim, standing in zip(claims, standings, strict=True):
        for number, limit, *_ in claim.account.bounds:
            window = standing.windows[number]
            if window is None:
                continue
            left = limit - window.used
            if number == REQUESTS:
                if requests is None or left < requests[0]:
                    requests = left, limit, window
            elif number == TOKENS and (tokens is None or left < tokens[0]):
                tokens = left, limit, window
    return _reading(requests, now), _reading(tokens, now)


def _reading(found: tuple[int, int, Window] | None, now: int) -> Reading | None:
    if found is None:
        return None
    _, limit, window = found
    return Reading(limit, window.used, max(window.full_again_us() - now, 0) / 1e6)
