"""The report of a tuning as plain values (pure): what `-o json` prints and the page shows.

Times are milliseconds unless the name says otherwise. No key, no header's value and no question is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from control_plane.tools.load.calls import Operation
from control_plane.tools.tune.choosing import NEAR, Ranking, Standing, finite
from control_plane.tools.tune.racing import Race, places
from control_plane.tools.tune.scoring import Prices
from control_plane.tools.tune.settings import Ending, Method, Setting

Report = dict[str, Any]

HOW: Final = {
    Method.NATIVE: "batches made by this tool: a list of inputs in one call",
    Method.ARRAY: "batches made by this tool: a list of conversations in one call",
    Method.WAVES: "single requests sent together, so many at a moment; whoever is called may batch them",
    Method.POLICY: "single requests through the sidecar, which batches by the Policy set for each trial",
}
UNSURE: Final = 0.8
DIGITS: Final = 3
COST_DIGITS: Final = 9


@dataclass(frozen=True, slots=True)
class Subject:
    """What was tuned, and how."""

    url: str
    model: str
    operation: Operation
    method: Method
    policy: str | None = None


def report(subject: Subject, race: Race, *, at: str, seconds: float, results: Mapping[str, int]) -> Report:
    """Return the report. `at` is when it began (RFC 3339); `results` are HTTP requests by what came back."""
    ranking = race.ranking()
    rows = [row(setting, race, ranking) for setting in race.settings]
    best = ranking.best
    made: Report = {
        "tool": "tune",
        "at": at,
        "url": subject.url,
        "model": subject.model,
        "operation": subject.operation.value,
        "method": subject.method.value,
        "how": HOW[subject.method],
        "target": race.demand.target.value,
        "max_p99": race.demand.max_p99_ms,
        "policy": subject.policy,
        "callers": race.callers,
        "ended": (race.ending or Ending.INTERRUPTED).value,
        "seconds": round(seconds, 3),
        "budget": {
            "requests": race.budget.requests,
            "asked": race.budget.asked,
            "calls": sum(results.values()),
            "max_tokens": race.budget.max_tokens,
            "tokens": race.budget.tokens,
        },
        "results": dict(results),
        "sizes": by_size(rows),
        "trials": rows,
        "cost_is": "tokens an answer" if race.prices == Prices() else "of a thousand answers",
        "best": best.size if best else None,
        "best_window": best.window_ms if best else None,
        "confidence": round(ranking.confidence, 3),
        "applied": None,
    }
    return {**made, "gain": gain(rows, best), "warnings": warnings(made)}


def row(setting: Setting, race: Race, ranking: Ranking) -> dict[str, Any]:
    """Return one setting: `latency` is the median of what a question waited; null where nothing was seen."""
    standing = ranking.standings.get(setting)
    said: dict[str, Any] = {
        "size": setting.size,
        "window": setting.window_ms,
        "in_flight": places(setting.size, race.callers),
        "dropped_after_round": race.dropped.get(setting),
    }
    if standing is None:
        nothing = ("latency", "p50", "p99", "throughput", "error_rate", "cost", "interval")
        return {**said, "requests": 0, "errors": 0, "calls": 0, **dict.fromkeys(nothing)}
    figures = standing.figures
    return {
        **said,
        "requests": figures.asked,
        "calls": figures.calls,
        "errors": figures.errors,
        "error_rate": round(figures.error_rate, 6),
        "latency": _rounded(figures.p50),
        "p50": _rounded(figures.p50),
        "p99": _rounded(figures.p99),
        "throughput": _rounded(figures.throughput),
        "cost": _rounded(figures.cost, COST_DIGITS),
        "interval": interval(standing, race),
        "keeps_the_demand": standing.fit,
    }


def interval(standing: Standing, race: Race) -> list[float | None]:
    """Return the two ends that hold the target's figure with 95 %."""
    name = {"p99": "tail", "throughput": "throughput", "cost": "cost"}[race.demand.target.value]
    ends = sorted((getattr(standing.low, name), getattr(standing.high, name)))
    return [_rounded(end, COST_DIGITS if name == "cost" else DIGITS) for end in ends]


def by_size(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each size: of several windows the one that stayed longest in the race."""
    chosen: dict[int, dict[str, Any]] = {}
    for one in rows:
        kept = chosen.get(one["size"])
        if kept is None or _standing(one) > _standing(kept):
            chosen[one["size"]] = one
    return list(chosen.values())


def gain(rows: list[dict[str, Any]], best: Setting | None) -> dict[str, Any] | None:
    """Return the best beside the smallest size, as ratios; None when it is that one or there is no choice."""
    seen = [one for one in rows if one["throughput"]]
    mine = next(
        (one for one in seen if best and (one["size"], one["window"]) == (best.size, best.window_ms)), None
    )
    if mine is None or len(seen) < 2:
        return None
    first = min(seen, key=lambda one: (one["size"], one["window"] or 0))
    if first is mine:
        return None
    return {
        "beside_size": first["size"],
        "throughput": round(mine["throughput"] / first["throughput"], 3),
        "p99": round(mine["p99"] / first["p99"], 3),
    }


def warnings(made: Report) -> list[str]:
    """Return what a reader must know before believing the choice."""
    said = []
    unseen = [str(one["size"]) for one in made["trials"] if not one["calls"]]
    if unseen and made["best"] is not None:
        said.append(
            f"not tried before the end: size {', '.join(dict.fromkeys(unseen))}; give more --requests"
        )
    if made["best"] is not None and made["confidence"] < UNSURE:
        said.append(f"{sureness(made)}; give more --requests")
    if made["method"] == Method.WAVES.value and made["best"] is not None:
        said.append(
            "the target took no list of questions, so single requests were sent together: unless it batches "
            "them itself, differences between sizes say nothing"
        )
    if made["best"] is not None and not any(one.get("keeps_the_demand") for one in made["trials"]):
        said.append("no size keeps the demand; this is the best of those that have answers")
    edge = [one["size"] for one in made["trials"]]
    if made["best"] == max(edge) and len(set(edge)) > 1:
        said.append(f"the largest size is the best: larger ones than {max(edge)} may be better still")
    return said


def sureness(made: Report) -> str:
    """Return how sure the choice is, in words."""
    if not made["confidence"]:
        return "too few calls to say how sure that is"
    return f"{made['confidence']:.0%} sure that it is within {NEAR:.0%} of the true best"


def _standing(one: dict[str, Any]) -> tuple[bool, float, int]:
    return one["throughput"] is not None, one["dropped_after_round"] or float("inf"), one["requests"]


def _rounded(value: float, digits: int = DIGITS) -> float | None:
    kept = finite(value)
    return None if kept is None else round(kept, digits)
