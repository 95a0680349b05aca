"""Counters and histograms of one process that does all its counting in one thread.

`prometheus_client` keeps its own values in shared files once a process has `PROMETHEUS_MULTIPROC_DIR` set,
and looks labels up under a lock. The agent wants neither: these tables are collectors for its registry,
whose families `prometheus_client` exposes. A scrape may run in another thread: it reads a copy.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

Labels = tuple[str, ...]


class CounterTable:
    """One counter by label values. `name` is without `_total`, which the exposition adds."""

    def __init__(self, name: str, documentation: str, labels: Sequence[str]) -> None:
        self._name, self._documentation, self._labels = name, documentation, tuple(labels)
        self._rows: dict[Labels, float] = {}

    def inc(self, labels: Labels, by: float = 1.0) -> None:
        """Add `by` (0 makes the series visible)."""
        self._rows[labels] = self._rows.get(labels, 0.0) + by

    def collect(self) -> Iterator[Metric]:
        """Yield the counter's family."""
        family = CounterMetricFamily(self._name, self._documentation, labels=self._labels)
        for labels, value in list(self._rows.items()):
            family.add_metric(labels, value)
        yield family


class HistogramTable:
    """One histogram by label values; `bounds` are inclusive upper bounds, ascending, without infinity."""

    def __init__(self, name: str, documentation: str, labels: Sequence[str], bounds: Sequence[float]) -> None:
        self._name, self._documentation, self._labels = name, documentation, tuple(labels)
        self._bounds = list(bounds)
        self._names = [*(str(float(bound)) for bound in bounds), "+Inf"]
        # One more cell than buckets: the last one is the sum.
        self._rows: dict[Labels, list[float]] = {}

    def observe(self, labels: Labels, value: float) -> None:
        """Count one value."""
        row = self._rows.get(labels)
        if row is None:
            row = self._rows[labels] = [0.0] * (len(self._names) + 1)
        row[bisect_left(self._bounds, value)] += 1
        row[-1] += value

    def collect(self) -> Iterator[Metric]:
        """Yield the histogram's family."""
        family = HistogramMetricFamily(self._name, self._documentation, labels=self._labels)
        for labels, row in [(labels, list(row)) for labels, row in list(self._rows.items())]:
            total, buckets = 0.0, []
            for name, count in zip(self._names, row, strict=False):
                total += count
                buckets.append((name, total))
            family.add_metric(labels, buckets, row[-1])
        yield family
