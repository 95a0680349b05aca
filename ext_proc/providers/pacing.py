"""How fast to ask, so that what is left of a quota lasts until more comes (pure; times are passed in).

A quota that may be used at once would be used at once: a crowd takes a minute's worth in seconds and waits
for the rest of the minute. So once a third of a window is used, calls keep a distance in which whoever waits
still gets his turn in time. Where that cannot be, nobody is slowed: the window alone decides.

A provider without a known quota tells with its answers what is left until which time. When that is little, it
is spread as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ext_proc.limits.window import SPAN_US, Window
from ext_proc.openai.ratelimits import RateLimitHint
from ext_proc.providers.scopes import Scopes, backend_of

FREE: Final = 3
"""One part in so many of a window is used without a distance."""
HASTE: Final = 1.1
"""A little faster than would last exactly; what is left falls slower, the less it is."""
FARTHEST_US: Final = 2_000_000
"""No distance is longer: a quota of less than a call every other second is not spread."""
NEAR: Final = 0.1
"""A provider's quota of which so little is left is spread over the time to its reset."""
NEAR_OF_UNKNOWN: Final = 10
DRIFT_US: Final = 250_000
"""What was sent reaches the provider later than it is counted here; so much later it is let go."""
HELD_US: Final = SPAN_US + DRIFT_US
SLICE_US: Final = 500_000


class PacedWindow(Window):
    """A minute's window that tells how far apart calls should be."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(HELD_US, SLICE_US)

    def paced_until(self, now: int, amount: int, limit: int, most_us: int) -> int:
        """Return when `amount` more should go, 0 for at once; seen from the last `pass_time`.

        The distance is `most_us` at most, so that whoever waits gets his turn. Where not even the whole
        quota, spread evenly, would do for that, nobody is slowed.
        """
        bears = min(most_us, FARTHEST_US)
        if not self._slices or self.used * FREE < limit or amount * SPAN_US > bears * limit:
            return 0
        # The longest time that an equal share of what comes free by then has to last.
        left, distance = limit - self.used, 0.0
        for one in self._slices:
            if left <= 0:
                return 0
            so_far = amount * (one.newest + HELD_US - now) / left
            distance = max(distance, so_far)
            left += one.amount
        at = self._slices[-1].newest + min(int(distance / HASTE), bears)
        return at if at > now else 0


@dataclass(slots=True)
class _Left:
    requests: float
    tokens: float
    reset_at: float
    at: float
    before: float


class Spread:
    """What providers said is left, of those where it is little. Times are seconds of any beginning.

    What is left is a scope's own (see `scopes`).
    """

    def __init__(self) -> None:
        self._left: Scopes[_Left] = Scopes()

    def __contains__(self, backend: str) -> bool:
        """Whether little is left for `backend` or one of its keys."""
        return backend in self._left

    def knows(self, scope: str) -> bool:
        """Whether little is left for exactly that scope."""
        return self._left.get(scope) is not None

    def observe(self, scope: str, quota: RateLimitHint, now: float) -> None:
        """Take notice of what an answer said."""
        scarce = [
            (number, remaining, reset_s)
            for number, (remaining, limit, reset_s) in enumerate(
                (
                    (quota.remaining_requests, quota.limit_requests, quota.reset_requests_s),
                    (quota.remaining_tokens, quota.limit_tokens, quota.reset_tokens_s),
                )
            )
            if remaining and reset_s is not None and remaining <= _little(limit)
        ]
        if not scarce:
            if quota != RateLimitHint(retry_after_s=quota.retry_after_s):
                self._left.drop(scope)
            return
        amounts = [float("inf"), float("inf")]
        for number, remaining, _ in scarce:
            amounts[number] = remaining
        before = self._left.get(scope)
        reset_at, at = now + max(reset_s for *_, reset_s in scarce), before.at if before else now
        self._left.put(scope, _Left(amounts[0], amounts[1], reset_at, at, at))

    def forget(self, backend: str) -> None:
        """Take `backend` for a new one."""
        self._left.forget(backend)

    def wait_s(self, scope: str, tokens: int, most_s: float, now: float) -> float:
        """Return 0 and count a call that goes now; else how long it should wait, if not above `most_s`."""
        self._left.tidy(backend_of(scope), lambda left: left.reset_at <= now)
        left = self._left.get(scope)
        if left is None:
            return 0.0
        if left.reset_at <= now:
            self._left.drop(scope)
            return 0.0
        share = max(1 / max(left.requests, 1.0), tokens / max(left.tokens, 1.0))
        at = left.at + min(share, 1.0) * (left.reset_at - left.at)
        if 0 < at - now <= most_s:
            return at - now
        left.before, left.at = left.at, now
        left.requests -= 1
        left.tokens -= tokens
        return 0.0

    def take_back(self, scope: str, tokens: int, at: float) -> None:
        """Count one call less, which was let go at the time `at`: it did not go after all."""
        left = self._left.get(scope)
        if left is not None:
            left.requests += 1
            left.tokens += tokens
            if left.at == at:
                left.at = left.before


def _little(limit: int | None) -> float:
    return NEAR_OF_UNKNOWN if limit is None else max(limit * NEAR, 1)
