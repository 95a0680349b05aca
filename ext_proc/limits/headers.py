"""What callers are told of their limits, in OpenAI's headers (pure).

See https://platform.openai.com/docs/guides/rate-limits#rate-limits-in-headers.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

from ext_proc.limits.claims import MILLION, Rate, Reading, Refusal

Pairs = tuple[tuple[str, str], ...]
_NAMES: Final = {
    rate: tuple(f"x-ratelimit-{what}-{rate}" for what in ("limit", "remaining", "reset"))
    for rate in (Rate.REQUESTS, Rate.TOKENS)
}


def rate_limit_headers(requests: Reading | None, tokens: Reading | None) -> Pairs:
    """Return the three headers of each rate that is limited."""
    pairs: list[tuple[str, str]] = []
    for rate, reading in ((Rate.REQUESTS, requests), (Rate.TOKENS, tokens)):
        if reading is not None:
            limit, remaining, reset = _NAMES[rate]
            pairs.append((limit, str(reading.limit)))
            pairs.append((remaining, str(reading.remaining)))
            pairs.append((reset, duration_text(math.ceil(reading.reset_s * 1000))))
    return tuple(pairs)


@lru_cache(maxsize=1024)
def duration_text(milliseconds: int) -> str:
    """Return a time as OpenAI writes it (`17ms`, `12s`, `1m0s`), from a second on in whole seconds, up."""
    if 0 < milliseconds < 1000:
        return f"{milliseconds}ms"
    seconds = -(-milliseconds // 1000)
    return f"{seconds // 60}m{seconds % 60}s" if seconds >= 60 else f"{seconds}s"


def retry_after(wait_s: float) -> str:
    """Return whole seconds, at least 1: after that long the call is admitted, if nobody else comes."""
    return str(max(math.ceil(wait_s), 1))


def refusal_message(refusal: Refusal) -> str:
    """Return a sentence for the caller that was refused."""
    if refusal.rate is Rate.CONCURRENCY and not refusal.shed:
        return (
            f"Too many calls at the same time for {refusal.account.title}: {refusal.limit} are allowed. "
            "Wait until one has ended."
        )
    if refusal.rate is Rate.DAY_TOKENS or refusal.rate is Rate.DAY_COST:
        return (
            f"The budget of {refusal.account.title} is used up: {_budget(refusal)} within 24 hours. "
            f"There is room again in {duration_text(math.ceil(refusal.wait_s * 1000))}."
        )
    if refusal.shed:
        return (
            f"What is left for {refusal.account.title} is kept for callers of higher priority. "
            f"Please try again in {retry_after(refusal.wait_s)}s."
        )
    return (
        f"Rate limit reached for {refusal.account.title}: {refusal.limit} {refusal.rate} per minute. "
        f"Please try again in {retry_after(refusal.wait_s)}s."
    )


def _budget(refusal: Refusal) -> str:
    if refusal.rate is Rate.DAY_COST:
        return f"a cost of {refusal.limit / MILLION:g}"
    return f"{refusal.limit} tokens"
