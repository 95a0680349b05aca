"""Latencies as a high dynamic range histogram: three significant digits from 1 µs to an hour.

https://hdrhistogram.github.io/HdrHistogram/. Seconds go in, milliseconds come out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Self

from hdrh.histogram import HdrHistogram

LOWEST_US: Final = 1
HIGHEST_US: Final = 3_600_000_000
DIGITS: Final = 3
PERCENTILES: Final = (0, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99, 100)


class Latencies:
    """Many durations in little memory. `digits` is how many significant digits are kept (1 to 5)."""

    def __init__(self, digits: int = DIGITS) -> None:
        self._histogram = HdrHistogram(LOWEST_US, HIGHEST_US, digits)
        self._total_us = 0

    def __repr__(self) -> str:
        return f"Latencies(count={self.count}, p50_ms={self.percentile_ms(50)}, max_ms={self.max_ms})"

    @property
    def count(self) -> int:
        """How many durations there are."""
        return int(self._histogram.get_total_count())

    @property
    def max_ms(self) -> float:
        """The longest, 0 when there is none."""
        return float(self._histogram.get_max_value()) / 1000 if self.count else 0.0

    @property
    def mean_ms(self) -> float:
        """The mean, 0 when there is none."""
        return self._total_us / self.count / 1000 if self.count else 0.0

    def record(self, seconds: float) -> None:
        """Count one duration; what is out of range counts as the nearest in range."""
        self._count(min(max(int(seconds * 1e6), LOWEST_US), HIGHEST_US), 1)

    def _count(self, value_us: int, count: int) -> None:
        # The library's own mean walks over every possible value, which takes a tenth of a second.
        self._histogram.record_value(value_us, count)
        self._total_us += value_us * count

    def add(self, other: Self) -> None:
        """Count all of `other` too."""
        self._histogram.add(other._histogram)
        self._total_us += other._total_us

    def percentile_ms(self, percentile: float) -> float:
        """Return the duration that `percentile` (0 to 100) of all do not exceed, 0 when there is none."""
        return float(self._histogram.get_value_at_percentile(percentile)) / 1000 if self.count else 0.0

    def points(self) -> Iterator[tuple[float, float]]:
        """Yield percentile and milliseconds, for a plot of the whole distribution.

        A percentile that is beyond the longest duration but one is left out: it would be that one again.
        """
        wanted = [one for one in PERCENTILES if one == 100 or self.count * (100 - one) >= 100]
        yield from self.percentiles_ms(wanted).items()

    def percentiles_ms(self, wanted: Sequence[float]) -> dict[float, float]:
        """Return `percentile_ms` of each in one pass, nothing when there is no duration."""
        if not self.count:
            return {}
        found = self._histogram.get_percentile_to_value_dict(list(wanted))
        return {percentile: float(found[percentile]) / 1000 for percentile in wanted}

    def corrected(self, interval_s: float) -> Latencies:
        """Return these with what a stall hid added: for a duration d longer than `interval_s`, also those of
        d - interval, d - 2 * interval and so on, which callers at that pace would have seen.

        The rule is HdrHistogram's `copyCorrectedForCoordinatedOmission`.
        """
        step_us = int(interval_s * 1e6)
        if self._histogram.get_max_value() < 2 * step_us:
            return self
        made = Latencies()
        for item in self._histogram.get_recorded_iterator():
            value, count = item.value_iterated_to, item.count_at_value_iterated_to
            made._count(value, count)
            missing = value - step_us
            while step_us > 0 and missing >= step_us:
                made._count(missing, count)
                missing -= step_us
        return made

    def encoded(self) -> str:
        """Return all of it as text: the sum in microseconds, then HdrHistogram's own format (base64)."""
        return f"{self._total_us} {self._histogram.encode().decode()}"

    @classmethod
    def decoded(cls, text: str) -> Self:
        """Return what `encoded` wrote."""
        made = cls()
        total, _, histogram = text.partition(" ")
        made._histogram = HdrHistogram.decode(histogram)
        made._total_us = int(total)
        return made
