"""What the scripts of limits are told, and what they tell: words with spaces between (pure).

See `lua/window.lua`, `lua/reserve.lua` and `lua/settle.lua`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ext_proc.limits.book import SLOT_AGAIN_S, worse
from ext_proc.limits.claims import (
    DAY_COST,
    DAY_TOKENS,
    REQUESTS,
    TOKENS,
    Account,
    Claim,
    Load,
    Rate,
    Reading,
    Refusal,
    Reservation,
)

PREFIX: Final = "outrigger:{limits}:"
NO_PLACES: Final = "0 0"


class Amounts(NamedTuple):
    """What was used of an account, or is owed to it; `cost` in millionths."""

    requests: int = 0
    tokens: int = 0
    cost: int = 0

    def of(self, window: int) -> int:
        """Return what counts in the window of that number."""
        return self.requests if window == REQUESTS else self.cost if window == DAY_COST else self.tokens


NOTHING: Final = Amounts()


Correction = tuple[int, int, int]
"""The number of a window, what is given back, what is added."""


class Told(NamedTuple):
    """How an account stands, by the scripts."""

    requests: Reading | None
    tokens: Reading | None
    load: Load


class Shape:
    """How one account is named to the scripts: its keys, and what of it never changes."""

    __slots__ = ("account", "has", "keys", "limits", "places", "without_place")

    def __init__(self, account: Account) -> None:
        self.account = account
        numbers = {bound.window for bound in account.bounds}
        self.places = f"{PREFIX}places:{account.key}"
        keys = {
            "m": f"{PREFIX}{account.key}" if numbers & {REQUESTS, TOKENS} else "",
            "d": f"{PREFIX}day:{account.key}" if numbers & {DAY_TOKENS, DAY_COST} else "",
            "p": self.places if account.places is not None else "",
            "a": f"{PREFIX}asked:{account.key}" if account.shedding is not None else "",
        }
        self.has = "".join(letter for letter, key in keys.items() if key) or "-"
        self.keys = tuple(key for key in keys.values() if key)
        self.without_place = tuple(key for key in self.keys if key != self.places)
        places = account.places
        rank = account.shedding.rank if account.shedding is not None else 0
        most = NO_PLACES if places is None else f"{places.idle} {places.asked}"
        self.limits = f"{most} {rank} {len(account.bounds)}"

    def named(self, *, with_place: bool) -> tuple[str, Sequence[str]]:
        """Return the letters and the keys, with those of places or without."""
        if with_place:
            return self.has, self.keys
        return self.has.replace("p", "") or "-", self.without_place

    def reserved(self, claim: Claim, owed: Amounts) -> tuple[str, Sequence[str]]:
        """Return the words that claim something, and their keys."""
        has, keys = self.named(with_place=claim.slot)
        words = [has, self.limits]
        for number, _, idle, asked, _ in self.account.bounds:
            words.append(f"{number} {claim.of(number)} {idle} {asked} {owed.of(number)}")
        return " ".join(words), keys

    def corrected(self, corrections: Sequence[Correction], *, places: bool) -> tuple[str, Sequence[str]]:
        """Return the words that correct something, and their keys."""
        has, keys = self.named(with_place=places)
        words = [has, str(len(corrections))]
        words += [f"{number} {back} {more}" for number, back, more in corrections]
        return " ".join(words), keys


def corrections_of(claim: Claim, used: Amounts) -> Sequence[Correction]:
    """Return what is to be corrected of `claim` when so much was used; requests are never added."""
    found: list[Correction] = []
    for number, *_ in claim.account.bounds:
        over = used.of(number) - claim.of(number)
        if over < 0:
            found.append((number, -over, 0))
        elif over > 0 and number != REQUESTS:
            found.append((number, 0, over))
    return found


def read_verdict(
    claims: Sequence[Claim], reply: bytes
) -> tuple[Reservation | None, Refusal | None, list[Told]]:
    """Return what was decided: a reservation, or the longest wait's refusal; how accounts stand."""
    numbers = map(int, reply.split())
    now, admitted = next(numbers), next(numbers)
    worst: Refusal | None = None
    told: list[Told] = []
    most = 0
    for claim in claims:
        refusal, stands = _read_account(claim, numbers, now)
        told.append(stands)
        if refusal is not None:
            worst = worse(worst, refusal)
        most = max(most, claim.tokens)
    if admitted:
        return Reservation(claims, now, most), None, told
    return None, worst, told


def _read_account(claim: Claim, numbers: Iterator[int], now: int) -> tuple[Refusal | None, Told]:
    account = claim.account
    low, held = next(numbers), next(numbers)
    worst: Refusal | None = None
    readings: list[Reading | None] = [None, None]
    now_in_use = of_day = 0.0
    places = account.places
    if places is not None and claim.slot:
        now_in_use = held / places.limit
        if held >= (places.asked if low else places.idle):
            worst = Refusal(account, Rate.CONCURRENCY, places.limit, SLOT_AGAIN_S, held < places.limit)
    for number, limit, _, _, rate in account.bounds:
        used, full_at, fits_at = next(numbers), next(numbers), next(numbers)
        if number > TOKENS:
            of_day = max(of_day, used / limit)
        else:
            now_in_use = max(now_in_use, used / limit)
            readings[number] = Reading(limit, used, max(full_at - now, 0) / 1e6)
        if fits_at:
            shed = used + min(claim.of(number), limit) <= limit
            worst = worse(worst, Refusal(account, rate, limit, max(fits_at - now, 1) / 1e6, shed))
    return worst, Told(readings[0], readings[1], Load(now_in_use, of_day))
