"""A provider's RPM and TPM quota, with OpenAI's headers and refusals (pure; the time is passed in).

Like OpenAI's, each limit is a bucket that holds one minute's worth and refills steadily, so that
`x-ratelimit-reset-*` is the time until it is full again: https://platform.openai.com/docs/guides/rate-limits.
Buckets are per model.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass

from control_plane.tools.provider.errors import ApiError

MOST_MODELS = 1000
Headers = tuple[tuple[str, str], ...]


class Bucket:
    """One limit: `per_minute` units at most at once, refilled at that rate."""

    def __init__(self, per_minute: int, now: float) -> None:
        self.per_minute = per_minute
        self._level = float(per_minute)
        self._at = now

    def remaining(self, now: float) -> float:
        """Return how many units are left at `now` (seconds)."""
        return min(self.per_minute, self._level + (now - self._at) * self.per_minute / 60)

    def take(self, amount: int, now: float) -> None:
        """Spend `amount` units, which must be there."""
        self._level = self.remaining(now) - amount
        self._at = now

    def wait_s(self, amount: int, now: float) -> float:
        """Return how long until `amount` units are there; 0 when they are."""
        return max(0.0, (amount - self.remaining(now)) * 60 / self.per_minute)


@dataclass(frozen=True, slots=True)
class Limited:
    """One limit's bucket with what a call asks of it; `unit` is requests or tokens."""

    unit: str
    short: str
    bucket: Bucket
    amount: int


class Quota:
    """The buckets of every model; None is no limit."""

    def __init__(self, requests_per_minute: int | None, tokens_per_minute: int | None) -> None:
        self._limits = (("requests", "RPM", requests_per_minute), ("tokens", "TPM", tokens_per_minute))
        self._on = requests_per_minute is not None or tokens_per_minute is not None
        self._models: OrderedDict[str, dict[str, Bucket]] = OrderedDict()

    def admit(self, model: str, tokens: int, now: float) -> Headers:
        """Charge one request of `tokens` and return the rate-limit headers; a refused one costs nothing.

        Raises:
            ApiError: 429 with the headers and `retry-after`; without the latter when it can never fit.
        """
        if not self._on:
            return ()
        asked = [
            Limited(unit, short, self._bucket(model, unit, limit, now), 1 if unit == "requests" else tokens)
            for unit, short, limit in self._limits
            if limit is not None
        ]
        for limited in asked:
            if limited.bucket.wait_s(limited.amount, now) > 0:
                raise _refusal(model, limited, _headers(asked, now), now)
        for limited in asked:
            limited.bucket.take(limited.amount, now)
        return _headers(asked, now)

    def _bucket(self, model: str, unit: str, limit: int, now: float) -> Bucket:
        buckets = self._models.get(model)
        if buckets is None:
            buckets = self._models[model] = {}
            if len(self._models) > MOST_MODELS:  # callers invent model names; memory must not follow them
                self._models.popitem(last=False)
        bucket = buckets.get(unit)
        if bucket is None:
            bucket = buckets[unit] = Bucket(limit, now)
        return bucket


def duration(seconds: float) -> str:
    """Return `seconds` as OpenAI writes it: `120ms`, `8.64s`, `6m0s`, `1h0m0s`."""
    if seconds <= 0:
        return "0s"
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    if seconds < 60:
        return f"{math.ceil(seconds * 1000) / 1000:g}s"
    whole = math.ceil(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}h{minutes}m{left}s" if hours else f"{minutes}m{left}s"


def _headers(asked: list[Limited], now: float) -> Headers:
    found: list[tuple[str, str]] = []
    for limited in asked:
        bucket = limited.bucket
        found += [
            (f"x-ratelimit-limit-{limited.unit}", str(bucket.per_minute)),
            (f"x-ratelimit-remaining-{limited.unit}", str(max(0, math.floor(bucket.remaining(now) + 1e-9)))),
            (f"x-ratelimit-reset-{limited.unit}", duration(bucket.wait_s(bucket.per_minute, now))),
        ]
    return tuple(found)


def _refusal(model: str, limited: Limited, headers: Headers, now: float) -> ApiError:
    bucket, short = limited.bucket, limited.short
    if limited.amount > bucket.per_minute:
        message = (
            f"Request too large for {model} on {limited.unit} per min ({short}): Limit {bucket.per_minute}, "
            f"Requested {limited.amount}. The input or output tokens must be reduced."
        )
        return ApiError(429, message, kind=limited.unit, code="rate_limit_exceeded", headers=headers)
    wait_s = bucket.wait_s(limited.amount, now)
    used = math.ceil(bucket.per_minute - bucket.remaining(now))
    message = (
        f"Rate limit reached for {model} on {limited.unit} per min ({short}): Limit {bucket.per_minute}, "
        f"Used {used}, Requested {limited.amount}. Please try again in {duration(wait_s)}."
    )
    hints = (
        ("retry-after", str(max(1, math.ceil(wait_s)))),
        ("retry-after-ms", str(math.ceil(wait_s * 1000))),
    )
    return ApiError(429, message, kind=limited.unit, code="rate_limit_exceeded", headers=(*headers, *hints))
