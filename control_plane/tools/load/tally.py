"""Tallies: what has been counted of a run so far; those of several generators add up."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, Final

from control_plane.tools.load.latencies import Latencies
from control_plane.tools.load.verdicts import TIMEOUT
from control_plane.tools.load.wire import Outcome

MOST_BUCKETS: Final = 600
BUCKET_DIGITS: Final = 2


class Bucket:
    """What ended within one piece of the run's time."""

    def __init__(self) -> None:
        self.good = 0
        self.errors = 0
        self.latency = Latencies(BUCKET_DIGITS)


class Tally:
    """Counters and histograms of one run.

    `latency` counts from the intended start, `service` from the real one, `lag` is the difference, `first`
    the time to the first text of a stream, `gaps` the time between its pieces. Good answers are in them, and
    timeouts with the time they took: what fails at once would flatter. `unsent` calls were due and never
    sent, `waited` ones were held up because as many as may be were in flight.

    Args:
        width_s: the width of a piece of the time line.
    """

    def __init__(self, width_s: float = 1.0) -> None:
        self.width_s = width_s
        self.started = 0
        self.unsent = 0
        self.waited = 0
        self.seconds = 0.0
        self.cpu_s = 0.0
        self.results: Counter[str] = Counter()
        self.good = 0
        self.tokens: Counter[str] = Counter()
        self.cache: Counter[str] = Counter()
        self.batches: Counter[int] = Counter()
        self.latency, self.service, self.lag = Latencies(), Latencies(), Latencies()
        self.first, self.gaps = Latencies(), Latencies()
        self.timeline: defaultdict[int, Bucket] = defaultdict(Bucket)

    @property
    def ended(self) -> int:
        """How many calls have an outcome."""
        return self.results.total()

    @property
    def errors(self) -> int:
        """How many of them are not good."""
        return self.ended - self.good

    @property
    def unfinished(self) -> int:
        """How many were given up when the run was over: no errors, since nobody knows what they would be."""
        return self.started - self.ended

    def record(self, outcome: Outcome, intended: float, start: float) -> None:
        """Count the outcome of a call that was due at `intended`, in a run that began at `start`."""
        verdict = outcome.verdict
        self.results[verdict.result] += 1
        bucket = self.timeline[int((outcome.ended - start) / self.width_s)]
        if verdict.good:
            self._count_good(outcome, intended)
            bucket.good += 1
        else:
            bucket.errors += 1
        if verdict.good or verdict.result == TIMEOUT:
            self.latency.record(outcome.ended - intended)
            self.service.record(outcome.ended - outcome.began)
            bucket.latency.record(outcome.ended - intended)
        self.lag.record(outcome.began - intended)

    def _count_good(self, outcome: Outcome, intended: float) -> None:
        self.good += 1
        self.tokens["prompt"] += outcome.verdict.prompt_tokens
        self.tokens["completion"] += outcome.verdict.completion_tokens
        if outcome.cache:
            self.cache[outcome.cache] += 1
        if outcome.batch:
            self.batches[outcome.batch] += 1
        if outcome.first is not None:
            self.first.record(outcome.first - intended)
        for gap in outcome.gaps:
            self.gaps.record(gap)

    def add(self, other: Tally) -> None:
        """Count what another generator counted in the same time."""
        self.started += other.started
        self.unsent += other.unsent
        self.waited += other.waited
        self.good += other.good
        self.cpu_s += other.cpu_s
        self.seconds = max(self.seconds, other.seconds)
        for name in COUNTERS:
            getattr(self, name).update(getattr(other, name))
        self.batches.update(other.batches)
        for name in HISTOGRAMS:
            getattr(self, name).add(getattr(other, name))
        for place, theirs in other.timeline.items():
            bucket = self.timeline[place]
            bucket.good += theirs.good
            bucket.errors += theirs.errors
            bucket.latency.add(theirs.latency)

    def as_json(self) -> dict[str, Any]:
        """Return all of it as plain values, for another process."""
        return {
            **{name: getattr(self, name) for name in PLAIN},
            **{name: dict(getattr(self, name)) for name in COUNTERS},
            "batches": list(self.batches.items()),
            **{name: getattr(self, name).encoded() for name in HISTOGRAMS},
            "timeline": [
                [place, bucket.good, bucket.errors, bucket.latency.encoded()]
                for place, bucket in self.timeline.items()
            ],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Tally:
        """Return what `as_json` wrote."""
        made = cls(value["width_s"])
        for name in PLAIN:
            setattr(made, name, value[name])
        for name in COUNTERS:
            getattr(made, name).update(value[name])
        made.batches.update(dict(value["batches"]))
        for name in HISTOGRAMS:
            setattr(made, name, Latencies.decoded(value[name]))
        for place, good, errors, latency in value["timeline"]:
            bucket = made.timeline[place]
            bucket.good, bucket.errors = good, errors
            bucket.latency = Latencies.decoded(latency)
        return made


PLAIN: Final = ("width_s", "started", "unsent", "waited", "seconds", "cpu_s", "good")
COUNTERS: Final = ("results", "tokens", "cache")
HISTOGRAMS: Final = ("latency", "service", "lag", "first", "gaps")


def width_s(duration_s: float) -> float:
    """Return the width of a piece, so that a run that long has at most some hundreds of them."""
    return max(1.0, duration_s / MOST_BUCKETS)
