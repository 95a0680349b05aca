"""The gates of a Release: which calls count as bad, a version's figure, and when it is too much (pure).

How to add one: a class like those here, and a line in `gates_of`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Final, Protocol

from control_plane.releases.counts import Both, Counts
from control_plane.releases.histograms import Histogram, above, merged, quantile, quantile_bucket, size
from control_plane.resources.kinds.model import Prices
from control_plane.resources.kinds.release import Gates

LEAST_BAD: Final = 5
"""So many calls must be bad: one caller that tries again and again is not a version's fault."""
LEAST_MEASURED: Final = 50
_TAIL: Final = 0.95
_MIDDLE: Final = 0.5

Pair = tuple[int, int]
"""Calls, and the bad ones among them."""


class Gate(Protocol):
    """One way in which a new version may be worse."""

    @property
    def name(self) -> str:
        """As written in a Release: a rollback names it."""
        ...

    @property
    def limit(self) -> float:
        """How much worse it may be."""
        ...

    def bad(self, interval: Both, known: Both) -> tuple[Pair, Pair]:
        """Return the old version's and the new one's calls of `interval`, and the bad ones among them.

        `known` is from before the interval; what is bad may depend on it, and on both versions as one.
        """
        ...

    def figure(self, counts: Counts, deviations: float = 0.0) -> float | None:
        """Return what is compared, less by so many standard deviations; None when too little is known."""
        ...

    def is_beyond(self, old: float, new: float) -> bool:
        """Return whether the new version's figure is worse than the limit allows."""
        ...


@dataclass(frozen=True, slots=True)
class ErrorRate:
    """The share of calls that failed; `limit` is an absolute increase."""

    limit: float
    name: str = "errorRate"

    def bad(self, interval: Both, known: Both) -> tuple[Pair, Pair]:
        """Count errors."""
        old, new = interval.old, interval.new
        return (old.calls, old.errors), (new.calls, new.errors)

    def figure(self, counts: Counts, deviations: float = 0.0) -> float | None:
        """Return the rate; its lower end is Wilson's."""
        return _rate(counts.calls, counts.errors, deviations)

    def is_beyond(self, old: float, new: float) -> bool:
        """Compare by difference."""
        return new - old > self.limit


@dataclass(frozen=True, slots=True)
class RefusalRate:
    """The share of calls that a filter cut short or the model refused; `limit` is an absolute increase."""

    limit: float
    name: str = "refusalRate"

    def bad(self, interval: Both, known: Both) -> tuple[Pair, Pair]:
        """Count refusals."""
        old, new = interval.old, interval.new
        return (old.calls, old.filtered), (new.calls, new.filtered)

    def figure(self, counts: Counts, deviations: float = 0.0) -> float | None:
        """Return the rate; its lower end is Wilson's."""
        return _rate(counts.calls, counts.filtered, deviations)

    def is_beyond(self, old: float, new: float) -> bool:
        """Compare by difference."""
        return new - old > self.limit


@dataclass(frozen=True, slots=True)
class Quantile:
    """The 95th percentile of a time; a call is bad when it is slower than the old version's. A ratio."""

    name: str
    limit: float
    histogram: Callable[[Counts], Histogram]

    def bad(self, interval: Both, known: Both) -> tuple[Pair, Pair]:
        """Count slow calls."""
        return _beyond(self.histogram, interval, known, _TAIL)

    def figure(self, counts: Counts, deviations: float = 0.0) -> float | None:
        """Return the percentile; its lower end is the one that the binomial of its rank gives."""
        histogram = self.histogram(counts)
        measured = size(histogram)
        if measured < LEAST_MEASURED:
            return None
        return quantile(histogram, _TAIL - deviations * sqrt(_TAIL * (1 - _TAIL) / measured))

    def is_beyond(self, old: float, new: float) -> bool:
        """Compare by ratio."""
        return new > old * self.limit


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over the calls that succeeded; those with the longer half of the answers are bad. A ratio."""

    name: str
    limit: float
    total: Callable[[Counts], float]

    def bad(self, interval: Both, known: Both) -> tuple[Pair, Pair]:
        """Count long answers."""
        return _beyond(_output, interval, known, _MIDDLE)

    def figure(self, counts: Counts, deviations: float = 0.0) -> float | None:
        """Return the mean; its lower end takes tokens to spread as much as their mean is large."""
        answers = size(counts.output)
        if answers < LEAST_MEASURED:
            return None
        return self.total(counts) / answers * max(1 - deviations / sqrt(answers), 0.0)

    def is_beyond(self, old: float, new: float) -> bool:
        """Compare by ratio."""
        return new > old * self.limit


def gates_of(spec: Gates, prices: Prices | None = None) -> tuple[Gate, ...]:
    """Return the gates that `spec` asks for; without `prices` a token costs one."""
    gates: list[Gate] = [
        ErrorRate(spec.error_rate.max_increase),
        Quantile("latencyP95", spec.latency_p95.max_ratio, _duration),
        Quantile("ttftP95", spec.ttft_p95.max_ratio, _first_byte),
    ]
    if spec.cost is not None:
        gates.append(Mean("cost", spec.cost.max_ratio, _cost(prices)))
    if spec.output_length is not None:
        gates.append(Mean("outputLength", spec.output_length.max_ratio, lambda counts: counts.output_tokens))
    if spec.refusal_rate is not None:
        gates.append(RefusalRate(spec.refusal_rate.max_increase))
    return tuple(gates)


def _rate(calls: int, bad: int, deviations: float) -> float | None:
    if not calls:
        return None
    rate, squared = bad / calls, deviations * deviations
    off = deviations * sqrt(rate * (1 - rate) / calls + squared / (4 * calls * calls))
    return (rate + squared / (2 * calls) - off) / (1 + squared / calls)


def _beyond(
    histogram: Callable[[Counts], Histogram], interval: Both, known: Both, share: float
) -> tuple[Pair, Pair]:
    old, new = histogram(interval.old), histogram(interval.new)
    reference = histogram(known.old)
    if size(reference) < LEAST_MEASURED:
        # The interval itself may be asked only for both versions as one: then the labels stay exchangeable.
        reference = merged(merged(reference, histogram(known.new)), merged(old, new))
    cut = quantile_bucket(reference, share)
    if cut is None:
        return (0, 0), (0, 0)
    return (size(old), above(old, cut)), (size(new), above(new, cut))


def _cost(prices: Prices | None) -> Callable[[Counts], float]:
    per_input = (prices.input_per_million or 0.0) if prices else 1.0
    per_output = (prices.output_per_million or 0.0) if prices else 1.0
    return lambda counts: counts.input_tokens * per_input + counts.output_tokens * per_output


def _duration(counts: Counts) -> Histogram:
    return counts.duration


def _first_byte(counts: Counts) -> Histogram:
    return counts.first_byte


def _output(counts: Counts) -> Histogram:
    return counts.output
