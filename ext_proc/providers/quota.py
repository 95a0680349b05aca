"""What providers allow (`quota` of a Backend), counted in one processor: exact, in memory.

A call draws on its Backend's quota when it is about to go up: a request, its tokens by an estimate, a place
among the calls at the same time. It is never refused here; it is told how long it has to wait.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from ext_proc.contract.snapshot import Quota
from ext_proc.limits.claims import Rate
from ext_proc.limits.window import Window
from ext_proc.providers.pacing import PacedWindow

PLACE_AGAIN_S: Final = 0.25
"""When a call that found all places taken asks again, if nobody here has left one before."""


def limits_anything(quota: Quota) -> bool:
    """Whether the provider's quota is known."""
    return not (
        quota.requests_per_minute is None and quota.tokens_per_minute is None and quota.concurrency is None
    )


class Ask(NamedTuple):
    """What one call wants of a Backend. `most_us`: the longest distance to the call before that it bears.

    `scope` is whose cooling concerns it (see `scopes`), "" for its Backend's alone.
    """

    backend: str
    quota: Quota
    tokens: int = 0
    requests: int = 1
    most_us: int = 0
    scope: str = ""


@dataclass(slots=True, eq=False)
class Draft:
    """What a call has drawn. `name` and `mirror` are those of one that is counted where others see it.

    One in `debt` was not asked for: the call had gone already.
    """

    ask: Ask
    at_us: int
    open: bool = True  # its tokens are not settled yet
    holds: bool = True  # it has its place
    name: str = ""
    mirror: Draft | None = None
    debt: bool = False


class Wait(NamedTuple):
    """Why a call cannot go now, and when to ask again. `paced`: it would fit, and ought not to hurry."""

    wait_s: float
    rate: Rate
    paced: bool = False


class _Standing:
    __slots__ = ("held", "requests", "tokens")

    def __init__(self) -> None:
        self.requests = PacedWindow()
        self.tokens = PacedWindow()
        self.held = 0


class MemoryQuotas:
    """The quotas of one processor's own. `clock_us` is a monotonic time in whole microseconds."""

    def __init__(self, clock_us: Callable[[], int]) -> None:
        self._clock_us = clock_us
        self._standings: dict[str, _Standing] = {}

    async def draw(self, ask: Ask) -> Draft | Wait:
        """Let a call go or tell it how long to wait."""
        return self.decide(ask)

    def decide(self, ask: Ask, *, share: float = 1.0) -> Draft | Wait:
        """Let a call go or tell it how long to wait; only a `share` of the quota is there."""
        now = self._clock_us()
        standing = self._standing(ask.backend, now)
        worst: Wait | None = None
        for rate, window, amount, whole in (
            (Rate.REQUESTS, standing.requests, ask.requests, ask.quota.requests_per_minute),
            (Rate.TOKENS, standing.tokens, ask.tokens, ask.quota.tokens_per_minute),
        ):
            if whole is None or not amount:
                continue
            limit = max(math.floor(whole * share), 1)
            full = window.fits_at(amount, limit)
            at = full or window.paced_until(now, amount, limit, ask.most_us)
            if at:
                wait_s = max(at - now, 1) / 1e6
                if worst is None or wait_s > worst.wait_s:
                    worst = Wait(wait_s, rate, paced=not full)
        places = ask.quota.concurrency
        if worst is None and places is not None and standing.held >= max(math.floor(places * share), 1):
            worst = Wait(PLACE_AGAIN_S, Rate.CONCURRENCY)
        return worst if worst is not None else self.note(ask)

    def note(self, ask: Ask) -> Draft:
        """Count a call that goes."""
        now = self._clock_us()
        standing = self._standing(ask.backend, now)
        if ask.requests:
            standing.requests.add(now, ask.requests)
        if ask.tokens:
            standing.tokens.add(now, ask.tokens)
        standing.held += 1
        return Draft(ask, now)

    def charge(self, ask: Ask) -> Draft:
        """Count a call that has gone without asking; it has no place."""
        draft = self.note(ask)
        self.release(draft)
        draft.debt = True
        return draft

    def used(self, backend: str) -> tuple[int, int]:
        """Return the requests and tokens that count at the moment."""
        standing = self._standing(backend, self._clock_us())
        return standing.requests.used, standing.tokens.used

    def settle(self, draft: Draft, tokens: int) -> None:
        """Count `tokens` in the place of the estimate. Only the first settlement counts."""
        if not draft.open:
            return
        draft.open = False
        now = self._clock_us()
        window = self._standing(draft.ask.backend, now).tokens
        _correct(window, draft.at_us, tokens - draft.ask.tokens, now)

    def give_back(self, draft: Draft) -> None:
        """Give back what was drawn for a call that was never sent."""
        if draft.open:
            self.settle(draft, 0)
            standing = self._standing(draft.ask.backend, self._clock_us())
            standing.requests.take_back(draft.at_us, draft.ask.requests)

    def release(self, draft: Draft) -> None:
        """Give the place back, once."""
        if draft.holds:
            draft.holds = False
            self._standings[draft.ask.backend].held -= 1

    def _standing(self, backend: str, now: int) -> _Standing:
        found = self._standings.get(backend)
        if found is None:
            found = self._standings[backend] = _Standing()
        else:
            found.requests.pass_time(now)
            found.tokens.pass_time(now)
        return found


def _correct(window: Window, at_us: int, more: int, now: int) -> None:
    if more > 0:
        window.add(now, more)
    elif more < 0:
        window.take_back(at_us, -more)
