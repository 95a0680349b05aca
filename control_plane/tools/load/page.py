"""The report of a run as one page of HTML (pure)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Any, Final

from control_plane.tools.load.charts import Axis, Panel, Series, chart, nice_ticks, number_text
from control_plane.tools.load.comparing import Row, compared
from control_plane.tools.load.markup import cards, figure, page, table, warned


def bench_page(report: Mapping[str, Any], other: Mapping[str, Any] | None = None) -> str:
    """Return the page of a run, beside another one when there is one to compare with."""
    target, load = report["target"], report["load"]
    kind = f"{target['operation']}{', streams' if target['stream'] else ''}"
    told = f"{target['model']}, {kind}; {shape(load)}; {report['at']}"
    body = [
        cards(
            [
                ("good answers a second", number_text(report["rps"])),
                ("p50", f"{number_text(report['p50'])} ms"),
                ("p99", f"{number_text(report['p99'])} ms"),
                ("errors", f"{report['errors']} ({report['error_rate']:.2%})"),
                ("requests", str(report["requests"])),
                ("seconds", number_text(report["seconds"])),
            ]
        ),
        warned(report["warnings"]),
    ]
    if other is not None:
        body += [
            f"<h2>Beside {escape(str(other.get('name', 'another run')))}</h2>",
            _comparison(report, other),
        ]
    body += ["<h2>Over time</h2>", _over_time(report), "<h2>Latency</h2>", _latencies(report)]
    body.append(_distribution(report, other))
    body += ["<h2>What came back</h2>", _results(report)]
    return page(f"Load on {report['name']}", told, body)


def shape(load: Mapping[str, Any]) -> str:
    """Return how the load was made, in words."""
    ramp = f", ramp {load['ramp_s']:g} s" if load["ramp_s"] else ""
    if load["loop"] == "closed":
        return f"closed loop, {load['concurrency']} callers{ramp}"
    return f"open loop, {load['rate']:g} a second ({load['arrivals']}){ramp}"


def _comparison(report: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    def cell(row: Row) -> str:
        kind = {True: "good", False: "bad", None: ""}[row.better]
        return f'<td class="{kind}">{"–" if row.ratio is None else f"× {row.ratio:.3g}"}</td>'

    rows = "".join(
        f"<tr><td>{escape(row.label)}</td><td>{number_text(row.other)} {row.unit}</td>"
        f"<td>{number_text(row.this)} {row.unit}</td>{cell(row)}</tr>"
        for row in compared(report, other)
    )
    head = "<th></th><th>that run</th><th>this run</th><th>ratio</th>"
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _over_time(report: Mapping[str, Any]) -> str:
    line = report["timeline"]
    width = line["width_s"]
    moments = [(place + 0.5) * width for place in range(len(line["good"]))]
    end = len(moments) * width
    rate = Panel(
        "Answers a second",
        [
            Series("good", [(x, n / width) for x, n in zip(moments, line["good"], strict=True)], 0),
            Series("errors", [(x, n / width) for x, n in zip(moments, line["errors"], strict=True)], 3),
        ],
    )
    latency = Panel(
        "Latency",
        [
            Series("p50", list(zip(moments, line["p50"], strict=True)), 0),
            Series("p99", list(zip(moments, line["p99"], strict=True)), 1),
        ],
        unit=" ms",
    )
    ticks = [(tick, number_text(tick)) for tick in nice_ticks(end, 8) if tick <= end]
    svg = chart(
        "Answers a second and latency over time", [rate, latency], Axis("seconds since the start", ticks)
    )
    return figure(svg, f"Each point is {width:g} s; the last one may be cut short.")


def _latencies(report: Mapping[str, Any]) -> str:
    names = ("p50", "p90", "p95", "p99", "p999", "mean", "max")
    views = [("latency, ms", report)]
    views += [(label, report[name]) for name, label in VIEWS.items() if name in report]
    rows = [[label, *(number_text(view[name]) for name in names)] for label, view in views]
    said = ""
    if "corrected" in report:
        said = (
            '<p class="told">Callers of a closed loop wait during a stall and so hardly see it; the '
            "corrected line adds the calls that they would have made meanwhile, one each "
            f"{number_text(report['corrected']['interval'])} ms.</p>"
        )
    return table(["", "p50", "p90", "p95", "p99", "p99.9", "mean", "max"], rows) + said


VIEWS: Final = {
    "corrected": "corrected for coordinated omission",
    "service": "from the real start",
    "ttft": "to the first text",
    "inter_token": "between pieces",
}


def _distribution(report: Mapping[str, Any], other: Mapping[str, Any] | None) -> str:
    lines = [Series("this run", _by_nines(report), 0, dots=True)]
    if other is not None:
        lines.insert(0, Series("that run", _by_nines(other), 1, dashed=True))
    farthest = max((x for line in lines for x, _ in line.points), default=1.0)
    marks = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99)
    ticks = [(_nines(mark), f"{mark:g} %") for mark in marks if _nines(mark) <= farthest + 0.01]
    svg = chart(
        "Latency by percentile",
        [Panel("Latency by percentile", lines, unit=" ms")],
        Axis("percentile", ticks),
    )
    return figure(svg, "Read: so many per cent of the answers were at least so quick.")


def _by_nines(report: Mapping[str, Any]) -> list[tuple[float, float]]:
    return [(_nines(percentile), ms) for percentile, ms in report.get("distribution", ()) if percentile < 100]


def _nines(percentile: float) -> float:
    return -math.log10(max(1 - percentile / 100, 1e-6))


def _results(report: Mapping[str, Any]) -> str:
    rows = [[name, str(count)] for name, count in report["results"].items()]
    rows += [[f"x-outrigger-cache: {name}", str(count)] for name, count in report["cache"].items()]
    if batch := report["batch"]:
        rows.append([f"in batches, {batch['mean_size']:g} on average", str(batch["requests"])])
    if tokens := report["tokens"]:
        speed = number_text(tokens["completion_per_second"])
        rows.append(["tokens read", str(tokens["prompt"])])
        rows.append(["tokens written", f"{tokens['completion']} ({speed}/s)"])
    return table(["result", "count"], rows)
