"""What the dashboard shows live: frozen values, answered as they are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Times:
    """Quantiles in milliseconds; None when nothing was counted."""

    p50: float | None
    p95: float | None


@dataclass(frozen=True, slots=True)
class Rates:
    """How it goes now, each per second.

    `requests` are calls that went to a provider and answers from caches. `failed`: 5xx or cut off;
    `throttled`: 429; `refused`: another 4xx; `abandoned`: the caller left. `saved_cost` is in what the prices
    are in.
    """

    requests: float
    calls: float
    hits: float
    misses: float
    failed: float
    throttled: float
    refused: float
    abandoned: float
    input_tokens: float
    output_tokens: float
    saved_cost: float
    saved_tokens: float


@dataclass(frozen=True, slots=True)
class Sums:
    """What came together in the last fifteen minutes."""

    requests: int
    calls: int
    failed: int
    hits: int
    misses: int
    tokens: int
    saved_cost: float
    saved_tokens: int


@dataclass(frozen=True, slots=True)
class Series:
    """Rates per second and quantiles at the end of each step; `end` is the number of the last step.

    Rates are None before the first step that is known, quantiles where nothing was counted.
    """

    end: int
    step_seconds: float
    requests: list[float | None]
    failed: list[float | None]
    throttled: list[float | None]
    hits: list[float | None]
    misses: list[float | None]
    saved_cost: list[float | None]
    output_tokens: list[float | None]
    latency_p50: list[float | None]
    latency_p95: list[float | None]
    ttft_p50: list[float | None]
    ttft_p95: list[float | None]


@dataclass(frozen=True, slots=True)
class VersionRow:
    """One version of one Model: calls that went to a provider; rates per second, `errors` a share or None."""

    model: str
    version: str
    calls: float
    failed: float
    throttled: float
    refused: float
    errors: float | None
    latency: Times
    ttft: Times
    input_tokens: float
    output_tokens: float
    recent_calls: int


@dataclass(frozen=True, slots=True)
class TierRow:
    """One Tier ("" for none): every request of it, answers from caches and refusals too; rates per second."""

    tier: str
    requests: float
    limited: float
    failed: float
    tokens: float
    recent_requests: int


@dataclass(frozen=True, slots=True)
class Flow:
    """All of it. `whole`: the series holds every step, else only the last few."""

    whole: bool
    rates: Rates
    sums: Sums
    latency: Times
    ttft: Times
    series: Series
    models: list[VersionRow]
    tiers: list[TierRow]
