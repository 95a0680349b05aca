"""Whether an answer asks to leave its provider alone, and for how long (pure; `now_s` is passed in).

Which headers say so, and how they are written, is `openai.ratelimits`' job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ext_proc.openai.ratelimits import RateLimitHint, parse_hints

REFUSALS: Final = frozenset((429, 503))
"""What a provider answers when it is too busy (RFC 6585, RFC 9110)."""


@dataclass(frozen=True, slots=True)
class Hint:
    """What one answer says. `wait_s` is above 0; None when it is to be left alone but does not say how long.

    Without `cools`, the provider has not asked for anything. `quota` is what it says is left.
    """

    cools: bool
    wait_s: float | None
    quota: RateLimitHint


NO_HINT: Final = Hint(cools=False, wait_s=None, quota=RateLimitHint())


def read_hint(status: int, headers: Mapping[str, str], now_s: float) -> Hint:
    """Read one answer.

    A refusal cools its provider, unless `x-should-retry: false` says that waiting is of no use; so does any
    answer that says that nothing remains. How long, in this order: milliseconds, Retry-After, the reset of
    what has run out; of a refusal that does not say what has run out, the first reset.

    Args:
        status: of any answer.
        headers: lower-case names.
        now_s: seconds since the epoch.
    """
    quota = parse_hints(headers, now_s)
    if status in REFUSALS:
        cools = quota.wait_s is not None or headers.get("x-should-retry", "").strip().lower() != "false"
        return Hint(cools, quota.wait_s, quota)
    if not quota.is_exhausted:
        return Hint(cools=False, wait_s=None, quota=quota)
    wait_s = quota.retry_after_s
    return Hint(cools=True, wait_s=quota.exhausted_for_s if wait_s is None else wait_s, quota=quota)
