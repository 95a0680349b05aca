"""What became of every question, under which faults, and what of that may be (pure).

A fault excuses some outcomes of the questions that were under way while it lasted, or shortly after; nothing
excuses a wrong answer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.soak.questions import Kind, Outcome

GOOD: Final = frozenset((Outcome.RIGHT, Outcome.LIMITED, Outcome.LEFT))
SHOWN_OF_EACH: Final = 20
# Of one question alike to others, by one upstream call, several callers are answered.
SHARED: Final = frozenset((Kind.CACHED,))


@dataclass(frozen=True, slots=True)
class Excuse:
    """What a fault does to questions: these outcomes, of these kinds (all where none is named)."""

    outcomes: frozenset[Outcome]
    kinds: frozenset[Kind] = frozenset()


@dataclass(slots=True)
class Fault:
    """One fault as it was done. Times are monotonic seconds; `over_at` is when its cause was gone."""

    name: str
    began_at: float
    excuses: tuple[Excuse, ...] = ()
    doubles: bool = False  # whether calls may have gone up twice for it
    grace_s: float = 0.0
    over_at: float = 0.0
    failure: str = ""

    def concerns(self, asked_at: float, ended_at: float) -> bool:
        """Whether a question that was under way then was so under this fault."""
        return asked_at <= (self.over_at or self.began_at) + self.grace_s and ended_at >= self.began_at


@dataclass(frozen=True, slots=True)
class Entry:
    """One question and what became of it. Times are monotonic seconds; `since`: the first of its session."""

    name: str
    kind: Kind
    asked_at: float
    ended_at: float
    outcome: Outcome
    why: str = ""
    since: float | None = None


@dataclass(slots=True)
class Sums:
    """What the report says of questions."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    by_kind: dict[Kind, Counter[Outcome]] = field(default_factory=lambda: defaultdict(Counter))
    wrong: list[str] = field(default_factory=list)
    unexcused: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    excused: Counter[str] = field(default_factory=Counter)


def sum_up(entries: Sequence[Entry], faults: Sequence[Fault], started_at: float = 0.0) -> Sums:
    """Return how many questions came to what, and which of that nothing excuses."""
    sums = Sums()
    for entry in entries:
        sums.outcomes[entry.outcome] += 1
        sums.by_kind[entry.kind][entry.outcome] += 1
        if entry.outcome is Outcome.WRONG:
            sums.wrong.append(f"{entry.name}: {entry.why}")
        elif entry.outcome not in GOOD:
            excuse = next((one.name for one in faults if excuses(one, entry)), None)
            if excuse is not None:
                sums.excused[f"{excuse}: {entry.outcome}"] += 1
                continue
            sums.unexcused[entry.outcome.value] += 1
            if len(sums.examples) < SHOWN_OF_EACH:
                around = [one.name for one in faults if one.concerns(entry.asked_at - 5, entry.ended_at)]
                sums.examples.append(
                    f"{entry.asked_at - started_at:.1f} s, {entry.ended_at - entry.asked_at:.2f} s long: "
                    f"{entry.name} {entry.outcome} {entry.why} (around: {', '.join(around) or 'nothing'})"
                )
    return sums


def excuses(fault: Fault, entry: Entry) -> bool:
    """Whether a fault excuses what became of a question: of a session's order, a fault at any time of it."""
    disordered = entry.outcome is Outcome.DISORDERED and entry.since is not None
    since = entry.since if disordered and entry.since is not None else entry.asked_at
    return fault.concerns(since, entry.ended_at) and any(
        entry.outcome in one.outcomes and (not one.kinds or entry.kind in one.kinds) for one in fault.excuses
    )


@dataclass(frozen=True, slots=True)
class Doubles:
    """Calls beyond the first of a question: those that a fault explains, and the others' names."""

    explained: int
    unexplained: tuple[str, ...]


Spans = Mapping[str, Sequence[tuple[float, float]]]
"""By question, when each of its calls began and was over at the provider."""


def spans_of(diary: Iterable[Mapping[str, Any]]) -> Spans:
    """Return when the provider was asked what, by what it wrote down; a call that it died in has no end."""
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for line in diary:
        for name in line.get("names", ()):
            spans[name].append((line["at"], float("inf")))
        for name in line.get("over", ()):
            open_ones = [place for place, (_, end) in enumerate(spans[name]) if end == float("inf")]
            if open_ones:
                spans[name][open_ones[0]] = spans[name][open_ones[0]][0], line["at"]
    return spans


def doubled(entries: Iterable[Entry], spans: Spans, faults: Sequence[Fault], processors: int = 1) -> Doubles:
    """Compare how often the provider was called with how often it had to be.

    Questions that are kept are left out: they are asked again when they are forgotten. Of a crowd, whoever
    comes when the answer has been given asks anew, and each processor tells streams of its own; more calls at
    the same time than there are `processors` are too many. In the place of a caller who leaves the others may
    ask once more.
    """
    leavers = Counter(entry.name for entry in entries if entry.outcome is Outcome.LEFT)
    asked: dict[str, tuple[Kind, float, float]] = {}
    for entry in entries:
        if entry.kind in SHARED:
            continue
        kind, began, ended = asked.get(entry.name, (entry.kind, entry.asked_at, entry.ended_at))
        asked[entry.name] = kind, min(began, entry.asked_at), max(ended, entry.ended_at)
    explained = 0
    unexplained = []
    for name, (kind, began, ended) in asked.items():
        calls = sorted(spans.get(name, ()))
        more = len(calls) - 1
        if kind is Kind.CROWD:
            more = at_once(calls) - processors
        more -= leavers[name]
        if more <= 0:
            continue
        if any(one.doubles and one.concerns(began, ended) for one in faults):
            explained += more
        else:
            unexplained.append(f"{name}: {len(calls)} calls")
    return Doubles(explained, tuple(unexplained))


def at_once(spans: Sequence[tuple[float, float]]) -> int:
    """Return how many of the spans there are at the same time, at most."""
    edges = sorted([(began, 1) for began, _ in spans] + [(over, -1) for _, over in spans])
    most = now = 0
    for _, step in edges:
        now += step
        most = max(most, now)
    return most


def recoveries(entries: Sequence[Entry], faults: Sequence[Fault]) -> dict[str, float]:
    """Return, by kind of fault, the longest time until everything was answered and decided again, in seconds.

    It is counted from the fault's beginning for what dies and comes back by itself, from the end of the cause
    otherwise, to the last question that ended badly before the next fault.
    """
    worst: dict[str, float] = {}
    # A session that has lost its order shows it at each of its turns.
    bad = [one for one in entries if one.outcome not in GOOD and one.outcome is not Outcome.DISORDERED]
    for place, fault in enumerate(faults):
        until = faults[place + 1].began_at if place + 1 < len(faults) else float("inf")
        since = max(fault.over_at, fault.began_at)
        ended = [one.ended_at for one in bad if since <= one.ended_at < until and one.asked_at < until]
        worst[fault.name] = max(worst.get(fault.name, 0.0), max(ended, default=since) - since)
    return worst


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that so large a share of `values` is not above; 0.0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
