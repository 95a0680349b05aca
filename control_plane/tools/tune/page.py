"""The figure and the page of a tuning (pure)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from control_plane.tools.load.charts import Axis, Mark, Panel, Series, chart, number_text
from control_plane.tools.load.markup import cards, figure, page, style, table, warned

ENDED: Final = {
    "settled": "more trials would hardly change the choice",
    "requests": "the budget of requests is used",
    "tokens": "the budget of tokens is used",
    "time": "the time is over",
    "interrupted": "interrupted",
    "failed": "nothing was answered",
}


def tune_page(report: Mapping[str, Any]) -> str:
    """Return the page of a tuning."""
    budget = report["budget"]
    told = f"{report['model']} at {report['url']}; {report['how']}; {report['at']}"
    body = [
        cards(
            [
                ("best size", choice(report)),
                ("sure to be within 10 % of the true best", sure(report)),
                *_gains(report),
                ("questions asked", f"{budget['asked']} of {budget['requests']}"),
                ("calls", str(budget["calls"])),
            ]
        ),
        warned(report["warnings"]),
        "<h2>Latency, throughput, errors</h2>",
        figure(curves(report), f"{report['callers']} callers. The band holds the target's figure with 95 %."),
        "<h2>Every setting</h2>",
        _trials(report),
        f'<p class="told">Target: {escape(report["target"])}. Ended: {escape(ENDED[report["ended"]])}.</p>',
    ]
    if report["applied"]:
        changed = report["applied"]["changes"]
        rows = [[one["field"], str(one["before"] or "the default"), str(one["after"])] for one in changed]
        body += [
            f"<h2>Applied to Policy/{escape(report['policy'])}</h2>",
            table(["field", "was", "is"], rows),
        ]
    return page(f"Batch size for {report['model']}", told, body)


def curves(report: Mapping[str, Any]) -> str:
    """Return the figure: panels over one axis of sizes, a line for each window, the best marked."""
    rows = [one for one in report["trials"] if one["throughput"] is not None]
    lines: dict[str, list[Any]] = {}
    for one in rows:
        lines.setdefault("" if one["window"] is None else f"{one['window']} ms", []).append(one)

    def drawn(name: str, factor: float = 1.0) -> list[Series]:
        return [
            Series(label, _points(ones, name, factor), n % 4, dots=True, band=_band(report, ones, name))
            for n, (label, ones) in enumerate(lines.items())
        ]

    latency = Panel("p99 latency", drawn("p99"), " ms")
    if len(lines) == 1:
        (ones,) = lines.values()
        p99 = Series("p99", _points(ones, "p99"), 1, dots=True, band=_band(report, ones, "p99"))
        latency = Panel("Latency", [Series("p50", _points(ones, "p50"), 0, dots=True), p99], " ms")
    panels = [latency, Panel("Good answers a second", drawn("throughput"))]
    if report["target"] == "cost":
        panels.append(Panel(f"Cost, {report['cost_is']}", drawn("cost")))
    worst = max((one["error_rate"] for one in rows), default=0.0)
    panels.append(Panel("Errors", drawn("error_rate", 100.0), " %", max(1.0, worst * 100)))
    sizes = list(dict.fromkeys(one["size"] for one in rows))
    axis = Axis("questions in a call", [(math.log2(size), str(size)) for size in sizes])
    best = report["best"]
    mark = None if best is None else Mark(math.log2(best), f"best: {choice(report)}")
    return chart("Latency, throughput and error rate over batch size", panels, axis, mark)


def alone(svg: str) -> str:
    """Return a chart as a file of its own, with its style."""
    head, rest = svg.split(">", 1)
    named = head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    return f"{named}><style>{style()} svg {{ background: var(--bg); }}</style>{rest}\n"


def choice(report: Mapping[str, Any]) -> str:
    """Return the best setting in words."""
    if report["best"] is None:
        return "none"
    window = report["best_window"]
    return str(report["best"]) if window is None else f"{report['best']} in {window} ms"


def sure(report: Mapping[str, Any]) -> str:
    """Return how sure the choice is, in a word."""
    return f"{report['confidence']:.0%}" if report["confidence"] else "unknown"


def _gains(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    gain = report["gain"]
    if not gain:
        return []
    beside = f"of size {gain['beside_size']}"
    return [
        (f"throughput {beside}", f"× {gain['throughput']:.3g}"),
        (f"p99 {beside}", f"× {gain['p99']:.3g}"),
    ]


def _points(ones: Sequence[Any], name: str, factor: float = 1.0) -> list[tuple[float, float]]:
    return [(math.log2(one["size"]), one[name] * factor) for one in ones if one[name] is not None]


def _band(report: Mapping[str, Any], ones: Sequence[Any], name: str) -> list[tuple[float, float]]:
    """Return the interval of each point of the target's own line."""
    if name != report["target"] or any(None in (one[name], *one["interval"]) for one in ones):
        return []
    return [(one["interval"][0], one["interval"][1]) for one in ones]


def _trials(report: Mapping[str, Any]) -> str:
    windows = any(one["window"] is not None for one in report["trials"])
    window = ["window"] if windows else []
    head = ["size", *window, "answers/s", "p50", "p99", "errors", report["cost_is"], "asked", ""]
    rows, marked = [], {}
    for number, one in enumerate(report["trials"]):
        rows.append(cells(one, windows=windows))
        if (one["size"], one["window"]) == (report["best"], report["best_window"]):
            marked[number] = "best"
            rows[-1][-1] = "best"
    return table(head, rows, marked)


def cells(one: Mapping[str, Any], *, windows: bool) -> list[str]:
    """Return a row for a reader."""

    def text(name: str, unit: str = "") -> str:
        return "–" if one[name] is None else f"{number_text(one[name])}{unit}"

    dropped = one["dropped_after_round"]
    return [
        str(one["size"]),
        *([f"{one['window']} ms" if one["window"] else "–"] if windows else []),
        text("throughput"),
        text("p50", " ms"),
        text("p99", " ms"),
        "–" if one["error_rate"] is None else f"{one['error_rate']:.2%}",
        text("cost"),
        str(one["requests"]),
        f"worse, after round {dropped}" if dropped else ("" if one["calls"] else "not tried"),
    ]
