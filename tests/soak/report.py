"""The report of a soak: figures, and which promises they keep (pure), as JSON, a table and a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tests.soak.ledger import Doubles, Entry, Fault, Sums, percentile
from tests.soak.questions import Kind, Outcome
from tests.soak.watching import Growth

# What a process may grow by from the first third of its settled life to the last: fragments and caches.
RSS_MORE_MIB: Final = 12.0
DESCRIPTORS_MORE: Final = 24
LAST_RUN: Final = "## The last run\n"


@dataclass(frozen=True, slots=True)
class Promise:
    """A figure with the value that it has to have."""

    name: str
    measured: str
    kept: bool


@dataclass(slots=True)
class Figures:
    """All that was measured."""

    order: int
    minutes: float
    capacity_per_s: float
    asked_per_s: float
    sums: Sums
    doubles: Doubles
    calls: int
    leaked: list[str]
    unsettled: list[str]
    growths: Sequence[Growth]
    canaries: list[str]
    recovery_s: Mapping[str, float]
    faults: Sequence[Fault]
    entries: Sequence[Entry]
    refrained: int = 0
    left: list[str] = field(default_factory=list)


def promises(figures: Figures) -> list[Promise]:
    """Return every promise, kept or not."""
    sums = figures.sums
    lost = sum(sums.unexcused.values())
    failed = [one for one in figures.faults if one.failure]
    grown = [
        one
        for one in figures.growths
        if one.rss_mib_more > RSS_MORE_MIB or one.descriptors_more > DESCRIPTORS_MORE
    ]
    doubles = figures.doubles
    return [
        Promise("wrong answers", str(len(sums.wrong)), not sums.wrong),
        Promise(
            "lost, refused, cut or passed by, without a fault that may",
            f"{lost} ({sum(sums.excused.values())} under faults that may)",
            not lost,
        ),
        Promise(
            "asked twice of the provider, without a cause",
            f"{len(doubles.unexplained)} ({doubles.explained} with one, of {figures.calls} calls)",
            not doubles.unexplained,
        ),
        Promise("sent up, though it must stay", str(len(figures.leaked)), not figures.leaked),
        Promise("reserved and not settled", str(len(figures.unsettled)), not figures.unsettled),
        Promise(
            "processes that grow",
            "; ".join(
                [f"{len(grown)} of {len(figures.growths)} that lived long enough", *map(_growth_told, grown)]
            ),
            not grown,
        ),
        Promise("secrets where they must not be", str(len(figures.canaries)), not figures.canaries),
        Promise("processes left at the end", str(len(figures.left)), not figures.left),
        Promise(
            "faults that could be done",
            f"{len(figures.faults) - len(failed)} of {len(figures.faults)}",
            not failed,
        ),
    ]


def _growth_told(one: Growth) -> str:
    more = ", ".join(f"{kind} {count:+d}" for kind, count in one.kinds_more.items())
    return (
        f"{one.role} {one.pid}: {one.rss_mib_more:+.1f} MiB, {one.descriptors_more:+d} descriptors ({more})"
    )


def as_json(figures: Figures) -> dict[str, Any]:
    """Return everything but the single questions."""
    sums = figures.sums
    return {
        "order": figures.order,
        "minutes": figures.minutes,
        "capacity_per_s": round(figures.capacity_per_s, 1),
        "asked_per_s": round(figures.asked_per_s, 1),
        "refrained": figures.refrained,
        "questions": sum(sums.outcomes.values()),
        "outcomes": dict(sums.outcomes),
        "by_kind": {kind: dict(counts) for kind, counts in sums.by_kind.items()},
        "latency_ms": latencies(figures.entries),
        "wrong": sums.wrong[:50],
        "unexcused": dict(sums.unexcused),
        "unexcused_examples": sums.examples,
        "excused": dict(sums.excused),
        "calls": figures.calls,
        "doubled": {
            "explained": figures.doubles.explained,
            "unexplained": list(figures.doubles.unexplained[:50]),
        },
        "leaked": figures.leaked[:50],
        "unsettled": figures.unsettled,
        "growth": [asdict(one) for one in figures.growths],
        "canaries": figures.canaries,
        "recovery_s": {name: round(value, 2) for name, value in figures.recovery_s.items()},
        "faults": [
            {
                "name": one.name,
                "at_s": round(one.began_at - figures.faults[0].began_at, 1),
                "failure": one.failure,
            }
            for one in figures.faults
        ],
        "left": figures.left,
        "promises": [asdict(one) for one in promises(figures)],
    }


def latencies(entries: Sequence[Entry]) -> dict[str, dict[str, float]]:
    """Return p50, p95 and p99 of the whole answers of each kind, in ms."""
    found = {}
    for kind in Kind:
        times = [
            (one.ended_at - one.asked_at) * 1000
            for one in entries
            if one.kind is kind and one.outcome in (Outcome.RIGHT, Outcome.AS_IS)
        ]
        if times:
            shares = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
            found[kind.value] = {name: round(percentile(times, share), 1) for name, share in shares}
    return found


def as_markdown(figures: Figures) -> str:
    """Return the tables of the page."""
    sums, ms = figures.sums, latencies(figures.entries)
    lines = [
        f"{sum(sums.outcomes.values()):,} questions in {figures.minutes:g} minutes, order {figures.order}: "
        f"{figures.asked_per_s:.0f} a second asked of {figures.capacity_per_s:.0f} that were possible; "
        f"{len(figures.faults)} faults.",
        "",
        "| promise | measured | kept |",
        "|---|---|---|",
        *(
            f"| {one.name} | {one.measured} | {'yes' if one.kept else '**no**'} |"
            for one in promises(figures)
        ),
        "",
        "| kind | right | as it came | over its limit | caller left | refused | cut | lost "
        "| p50 ms | p95 ms | p99 ms |",
        f"|{'---|' * 11}",
    ]
    for kind, counts in sums.by_kind.items():
        shown = [
            counts[one]
            for one in (
                Outcome.RIGHT,
                Outcome.AS_IS,
                Outcome.LIMITED,
                Outcome.LEFT,
                Outcome.REFUSED,
                Outcome.CUT,
                Outcome.LOST,
            )
        ]
        of_kind = ms.get(kind.value, {})
        cells = [str(one) for one in shown] + [
            f"{of_kind.get(name, 0):.0f}" for name in ("p50", "p95", "p99")
        ]
        lines.append(f"| {kind.value} | {' | '.join(cells)} |")
    lines += ["", "| fault | times | longest until all was well, s |", "|---|---|---|"]
    for name, worst in sorted(figures.recovery_s.items()):
        count = sum(one.name == name for one in figures.faults)
        lines.append(f"| {name} | {count} | {worst:.1f} |")
    lines += ["", "| process | lived, s | MiB | MiB more | descriptors | more |", "|---|---|---|---|---|---|"]
    for one in sorted(figures.growths, key=lambda one: (one.role, -one.lasted_s)):
        lines.append(
            f"| {one.role} | {one.lasted_s:.0f} | {one.rss_mib:.0f} | {one.rss_mib_more:+.1f} | "
            f"{one.descriptors} | {one.descriptors_more:+d} |"
        )
    return "\n".join(lines) + "\n"


def with_last_run(page: str, tables: str) -> str:
    """Return a page with `tables` in the place of its last section."""
    before, _, _ = page.partition(LAST_RUN)
    return f"{before}{LAST_RUN}\n{tables}"
