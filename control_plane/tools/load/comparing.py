"""Two runs side by side (pure): the figures of each and their ratio."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson


class NoReport(ValueError):
    """A file is no report of a run."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure: where it stands in a report, its label, unit, and whether more of it is better."""

    path: tuple[str, ...]
    label: str
    unit: str
    more_is_better: bool = False


METRICS: Final = (
    Metric(("rps",), "good answers", "/s", more_is_better=True),
    Metric(("p50",), "p50", "ms"),
    Metric(("p90",), "p90", "ms"),
    Metric(("p99",), "p99", "ms"),
    Metric(("p999",), "p99.9", "ms"),
    Metric(("max",), "slowest", "ms"),
    Metric(("corrected", "p99"), "p99 corrected", "ms"),
    Metric(("service", "p99"), "p99 from the real start", "ms"),
    Metric(("ttft", "p50"), "TTFT p50", "ms"),
    Metric(("ttft", "p99"), "TTFT p99", "ms"),
    Metric(("inter_token", "p50"), "inter-token p50", "ms"),
    Metric(("inter_token", "p99"), "inter-token p99", "ms"),
    Metric(("tokens", "completion_per_second"), "tokens written", "/s", more_is_better=True),
    Metric(("errors",), "errors", ""),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of both runs. `ratio` is this one over the other, None when the other is 0; `better` says
    whether that is for the better, None when they are within a hundredth.
    """

    label: str
    unit: str
    other: float
    this: float
    ratio: float | None
    better: bool | None


def compared(this: Mapping[str, Any], other: Mapping[str, Any]) -> list[Row]:
    """Return a row for every figure that both reports have."""
    rows = []
    for metric in METRICS:
        mine, theirs = found(this, metric.path), found(other, metric.path)
        if mine is None or theirs is None or mine == theirs == 0:
            continue
        ratio = mine / theirs if theirs else None
        better = None
        if ratio is None or abs(ratio - 1) > 0.01:
            better = (mine > theirs) is metric.more_is_better
        rows.append(Row(metric.label, metric.unit, theirs, mine, ratio, better))
    return rows


def as_json(this: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the comparison for a report."""
    rows = compared(this, other)
    return {
        "with": str(other.get("name", "")),
        "ratios": {row.label: None if row.ratio is None else round(row.ratio, 4) for row in rows},
    }


def found(report: Mapping[str, Any], path: tuple[str, ...]) -> float | None:
    """Return the number at `path`, None when there is none."""
    value: Any = report
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def read_report(text: bytes) -> dict[str, Any]:
    """Return the report in `text`.

    Raises:
        NoReport: it holds none.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise NoReport("is no JSON; write one with outrigger bench … -o json > FILE") from None
    if not isinstance(value, dict) or any(found(value, (name,)) is None for name in ("rps", "p50", "p99")):
        raise NoReport("is no report of outrigger bench; write one with outrigger bench … -o json > FILE")
    points = value.get("distribution")
    return {
        **value,
        "name": printable(str(value.get("name") or "another run")),
        "distribution": [point for point in points if _is_point(point)] if isinstance(points, list) else [],
    }


def printable(text: str) -> str:
    """Return text of a file without what could drive a terminal."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _is_point(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(one, int | float) and 0 <= one < 1e12 for one in value)
    )
