"""What calls claim of which accounts, and what comes of it: values.

What each call makes anew is a named tuple: a frozen dataclass takes five times as long to make.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ext_proc.contract.snapshot import Limits
from ext_proc.limits.estimates import NOTHING, Estimate


class Rate(StrEnum):
    """What is limited."""

    REQUESTS = "requests"
    TOKENS = "tokens"
    CONCURRENCY = "concurrency"


@dataclass(frozen=True, slots=True)
class Account:
    """One thing whose use is counted. `key` names it among all, `title` to a caller."""

    key: str
    title: str
    limits: Limits


class Claim(NamedTuple):
    """What one call wants of one account; `slot`: a place among the calls at the same time."""

    account: Account
    requests: int = 1
    tokens: int = 0
    slot: bool = True


class Reading(NamedTuple):
    """How an account stands with one rate. `reset_s` is the time until nothing is used any more."""

    limit: int
    used: int
    reset_s: float

    @property
    def remaining(self) -> int:
        """What is left: never below 0, also when a limit was lowered below what is used."""
        return max(self.limit - self.used, 0)


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
    corrections: Sequence[tuple[int, int, int]] = ()  # still to be told to where it is shared


class Refusal(NamedTuple):
    """Why a call was not admitted, and after which time it would be if nobody else came."""

    account: Account
    rate: Rate
    limit: int
    wait_s: float


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
