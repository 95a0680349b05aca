"""Releases on `/metrics`: where each is, and every move since this replica began.

Each replica sees and counts every move, so of several take the highest and not the sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client import Counter
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from control_plane.registry.values import Head
from control_plane.releases.events import cause_of, event_of
from control_plane.releases.machine import Phase, Standing

_LABELS: Final = ("release", "model")


class ReleaseSeries(Collector):
    """Follows the heads in force; labels are closed sets but for names of documents."""

    def __init__(self) -> None:
        self._head: Head | None = None
        self._moves = Counter(
            "outrigger_release_moves",
            "Moves of Releases: what happened, and what it was decided by.",
            ("event", "reason"),
            registry=None,
        )

    def follow(self, head: Head) -> None:
        """Take in a new head; the first one is where counting begins."""
        before: Mapping[str, Standing] | None = None if self._head is None else self._head.releases
        self._head = head
        if before is None:
            return
        for name, after in head.releases.items():
            event = None if before.get(name) is after else event_of(before.get(name), after)
            if event is not None:
                self._moves.labels(event.removeprefix("release."), cause_of(event, after)).inc()

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges and the counter."""
        phases = GaugeMetricFamily(
            "outrigger_release_phase", "1 for the phase that a Release is in.", labels=(*_LABELS, "phase")
        )
        steps = GaugeMetricFamily("outrigger_release_step", "Its step, from 1.", labels=_LABELS)
        shares = GaugeMetricFamily(
            "outrigger_release_share_ratio",
            "The share of callers on the new version.",
            labels=_LABELS,
        )
        head = self._head or Head(0)
        for name, standing in head.releases.items():
            spec = head.documents.releases.get(name)
            if spec is None:
                continue
            labels = name, spec.model
            for phase in Phase:
                phases.add_metric((*labels, phase), float(standing.phase is phase))
            steps.add_metric(labels, standing.step)
            shares.add_metric(labels, standing.share / 100)
        yield from (phases, steps, shares)
        yield from self._moves.collect()
