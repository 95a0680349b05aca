"""The report of a run as plain values (pure): what `-o json` prints, pages show and runs are compared by.

Times are milliseconds unless the name says otherwise. No key, no header's value and no prompt is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from control_plane.tools.load.calls import Operation
from control_plane.tools.load.generator import Ending
from control_plane.tools.load.latencies import Latencies
from control_plane.tools.load.plan import ClosedLoop, Plan
from control_plane.tools.load.tally import Bucket, Tally

Report = dict[str, Any]
BUSY: Final = 0.9
LATE_MS: Final = 20.0
FEW: Final = 0.01
NAMED: Final = (("p50", 50.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0), ("p999", 99.9))


@dataclass(frozen=True, slots=True)
class Subject:
    """What was put under load."""

    url: str
    model: str
    operation: Operation
    stream: bool
    source: str
    name: str = ""


def report(subject: Subject, plan: Plan, tally: Tally, ending: Ending, *, at: str, processes: int) -> Report:
    """Return the report. `at` is when the run began (RFC 3339)."""
    seconds = max(tally.seconds, 1e-9)
    made: Report = {
        "tool": "bench",
        "name": subject.name or subject.url,
        "at": at,
        "target": {
            "url": subject.url,
            "model": subject.model,
            "operation": subject.operation.value,
            "stream": subject.stream,
            "requests_from": subject.source,
        },
        "load": load(plan, processes),
        "ended": ending.value,
        "seconds": round(tally.seconds, 3),
        "requests": tally.ended,
        "unfinished": tally.unfinished,
        "unsent": tally.unsent,
        "waited": tally.waited,
        "good": tally.good,
        "errors": tally.errors,
        "error_rate": round(tally.errors / tally.ended, 6) if tally.ended else 0.0,
        "results": dict(sorted(tally.results.items())),
        "rps": round(tally.good / seconds, 2),
        **figures(tally.latency),
        **_other_views(plan, tally),
        "tokens": tokens(tally, seconds),
        "cache": dict(tally.cache),
        "batch": batch(tally),
        "client": {
            "cpu_share": round(tally.cpu_s / seconds / processes, 3),
            "lag_p99": round(tally.lag.percentile_ms(99), 3),
        },
        "distribution": [[percentile, round(ms, 3)] for percentile, ms in tally.latency.points()],
        "timeline": timeline(tally),
    }
    return {**made, "warnings": warnings(made)}


def figures(latencies: Latencies) -> dict[str, float]:
    """Return percentiles, mean and maximum."""
    found = latencies.percentiles_ms([percentile for _, percentile in NAMED])
    named = {name: round(found.get(percentile, 0.0), 3) for name, percentile in NAMED}
    return {**named, "mean": round(latencies.mean_ms, 3), "max": round(latencies.max_ms, 3)}


def load(plan: Plan, processes: int) -> dict[str, Any]:
    """Return how the load was made."""
    said: dict[str, Any] = {
        "requests": plan.bounds.requests,
        "duration_s": plan.bounds.duration_s,
        "ramp_s": plan.pace.ramp_s,
        "processes": processes,
    }
    if isinstance(plan.pace, ClosedLoop):
        return {"loop": "closed", "concurrency": plan.pace.callers, **said}
    return {"loop": "open", "rate": plan.pace.rate, "arrivals": plan.pace.arrivals.value, **said}


def tokens(tally: Tally, seconds: float) -> dict[str, float] | None:
    """Return the tokens that answers say were used, None when none says so (streams do not, unasked)."""
    read, written = tally.tokens["prompt"], tally.tokens["completion"]
    if not read and not written:
        return None
    return {"prompt": read, "completion": written, "completion_per_second": round(written / seconds, 1)}


def batch(tally: Tally) -> dict[str, float] | None:
    """Return how large the batches were that a sidecar made, None when it made none."""
    calls = tally.batches.total()
    if not calls:
        return None
    mean = sum(size * count for size, count in tally.batches.items()) / calls
    return {"requests": calls, "mean_size": round(mean, 2), "max_size": max(tally.batches)}


def timeline(tally: Tally) -> dict[str, Any]:
    """Return what ended when, in pieces of equal width; pieces without an end are there too."""
    places = range(max(tally.timeline, default=-1) + 1)
    buckets = [tally.timeline.get(place) or Bucket() for place in places]
    return {
        "width_s": tally.width_s,
        "good": [bucket.good for bucket in buckets],
        "errors": [bucket.errors for bucket in buckets],
        "p50": [round(bucket.latency.percentile_ms(50), 3) for bucket in buckets],
        "p99": [round(bucket.latency.percentile_ms(99), 3) for bucket in buckets],
    }


def warnings(made: Mapping[str, Any]) -> list[str]:
    """Return what a reader must know before believing the figures."""
    said = []
    client = made["client"]
    if client["cpu_share"] > BUSY:
        said.append("the load generator itself was the bottleneck (its core was full); use more --processes")
    if made["waited"] > FEW * made["requests"]:
        said.append(
            f"{made['waited']} calls waited because as many as may be were in flight, {made['unsent']} were "
            "never sent: the target cannot keep up with the rate"
        )
    elif client["lag_p99"] > LATE_MS:
        said.append(
            f"calls started late (p99 {client['lag_p99']:.0f} ms), {made['unsent']} never: this machine "
            "cannot keep up with the rate, try more --processes; the latencies hold that, `service` does not"
        )
    if made["unfinished"]:
        said.append(f"{made['unfinished']} calls were given up unanswered; they are in no figure")
    if 0 < made["good"] < 100:
        said.append("fewer than 100 good answers: high percentiles mean little")
    return said


def _other_views(plan: Plan, tally: Tally) -> dict[str, Any]:
    views: dict[str, Any] = {}
    if isinstance(plan.pace, ClosedLoop):
        # Nobody said how often callers would have called: the median is the pace they kept when all was well.
        interval_s = tally.latency.percentile_ms(50) / 1000
        corrected = tally.latency.corrected(interval_s) if interval_s > 0 else tally.latency
        views["corrected"] = {"interval": round(interval_s * 1000, 3), **figures(corrected)}
    else:
        views["service"] = figures(tally.service)
    if tally.first.count:
        views["ttft"] = figures(tally.first)
        views["inter_token"] = figures(tally.gaps)
    return views
