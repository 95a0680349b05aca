"""What calls claim of which accounts, and what comes of it: values.

What each call makes anew is a named tuple: a frozen dataclass takes five times as long to make.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from ext_proc.contract.snapshot import Limits
from ext_proc.limits.estimates import NOTHING, Estimate
from ext_proc.limits.money import MOST
from ext_proc.limits.priorities import Shedding, share_of

MILLION: Final = 1_000_000
"""Money is counted in millionths of whatever currency `prices` are in."""
MODEL: Final = "model:"
# An account's windows, by number; those of a minute first.
REQUESTS, TOKENS, DAY_TOKENS, DAY_COST, PLACES = range(5)


class Rate(StrEnum):
    """What is limited."""

    REQUESTS = "requests"
    TOKENS = "tokens"
    CONCURRENCY = "concurrency"
    DAY_TOKENS = "tokens-per-day"
    DAY_COST = "cost-per-day"


class Bound(NamedTuple):
    """One limit of an account, on its window number `window`.

    `idle` and `asked` are what of it this caller may fill (see `priorities`).
    """

    window: int
    limit: int
    idle: int
    asked: int
    rate: Rate


@dataclass(frozen=True, slots=True)
class Account:
    """One thing whose use is counted. `key` names it among all, `title` to a caller.

    With `shedding`, this caller's calls meet the limits earlier than those of others. `most_tokens` is the
    smallest of its limits on tokens, 0 without any; `counts_usage`: it has limits on tokens or cost.
    """

    key: str
    title: str
    limits: Limits
    shedding: Shedding | None = None
    bounds: tuple[Bound, ...] = field(init=False, repr=False, compare=False)
    most_tokens: int = field(init=False, repr=False, compare=False)
    counts_cost: bool = field(init=False, repr=False, compare=False)
    counts_usage: bool = field(init=False, repr=False, compare=False)
    places: Bound | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        limits, cost = self.limits, self.limits.cost_per_day
        day_cost = max(round(min(cost * MILLION, MOST)), 1) if cost is not None else None
        found = (
            self._bound(REQUESTS, limits.requests_per_minute, Rate.REQUESTS),
            self._bound(TOKENS, limits.tokens_per_minute, Rate.TOKENS),
            self._bound(DAY_TOKENS, limits.tokens_per_day, Rate.DAY_TOKENS),
            self._bound(DAY_COST, day_cost, Rate.DAY_COST),
        )
        object.__setattr__(self, "bounds", tuple(bound for bound in found if bound is not None))
        tokens = [bound.limit for bound in self.bounds if bound.window in (TOKENS, DAY_TOKENS)]
        object.__setattr__(self, "most_tokens", min(tokens, default=0))
        object.__setattr__(self, "counts_cost", day_cost is not None)
        object.__setattr__(self, "counts_usage", bool(tokens) or day_cost is not None)
        object.__setattr__(self, "places", self._bound(PLACES, limits.concurrency, Rate.CONCURRENCY))

    @property
    def is_model(self) -> bool:
        """Whether it is a Model's."""
        return self.key.startswith(MODEL)

    def _bound(self, window: int, limit: int | None, rate: Rate) -> Bound | None:
        if limit is None:
            return None
        if self.shedding is None:
            return Bound(window, limit, limit, limit, rate)
        idle, asked = share_of(limit, self.shedding.idle), share_of(limit, self.shedding.asked)
        return Bound(window, limit, idle, asked, rate)


class Claim(NamedTuple):
    """What one call wants of one account; `slot`: a place among the calls at the same time.

    `tokens` count for the minute and the day alike; `cost` is in millionths.
    """

    account: Account
    requests: int = 1
    tokens: int = 0
    slot: bool = True
    cost: int = 0

    def of(self, window: int) -> int:
        """Return what is claimed of the account's window number `window`."""
        return self.requests if window == REQUESTS else self.cost if window == DAY_COST else self.tokens


class Reading(NamedTuple):
    """How an account stands with one rate. `reset_s` is the time until nothing is used any more."""

    limit: int
    used: int
    reset_s: float

    @property
    def remaining(self) -> int:
        """What is left: never below 0, also when a limit was lowered below what is used."""
        return max(self.limit - self.used, 0)


class Load(NamedTuple):
    """How full an account is: the largest share in use of its limits but those of a day, and of those."""

    now: float
    day: float


@dataclass(slots=True, eq=False)
class Reservation:
    """What was admitted. `at_us` is the book's time then, `tokens` what is counted for the call.

    One that is counted where other processors see it has a `name` there, and a `mirror` in this processor.
    """

    claims: Sequence[Claim]
    at_us: int
    tokens: int
    open: bool = True  # not settled and not given back
    holds: bool = True  # has its place among the calls at the same time
    name: str = ""
    mirror: Reservation | None = None
    corrections: Sequence[Sequence[tuple[int, int, int]]] = ()  # still to be told to where it is shared


class Refusal(NamedTuple):
    """Why a call was not admitted, and after which time it would be if nobody else came.

    `limit` is in the rate's own units, of a cost in millionths. `shed`: callers of higher priority would have
    been admitted.
    """

    account: Account
    rate: Rate
    limit: int
    wait_s: float
    shed: bool = False


class Verdict(NamedTuple):
    """Admitted with a reservation, or refused; and how the tightest account stands with each rate."""

    admitted: Reservation | None
    refusal: Refusal | None
    requests: Reading | None
    tokens: Reading | None


@dataclass(slots=True, eq=False)
class Metered:
    """What a call that has accounts holds of them.

    `counted` was admitted before anybody knew whether the call goes up (`count_cached`), `reserved` when it
    was about to. `told` are the response headers that say how its accounts stand; `refused` is the status,
    the headers and the body that it was refused with, for those who wait for its answer.
    """

    accounts: tuple[Account, ...]
    told: tuple[tuple[str, str], ...] = ()
    counted: Reservation | None = None
    reserved: Reservation | None = None
    estimate: Estimate = NOTHING
    refused: tuple[int, tuple[tuple[str, str], ...], bytes] | None = None


class Unavailable(Exception):
    """Nobody can tell what has been used, and the Policy lets nobody pass then."""


def tightest(readings: Sequence[Reading]) -> Reading | None:
    """Return the reading with the least left, None without any."""
    return min(readings, key=lambda one: (one.remaining, one.limit), default=None)
