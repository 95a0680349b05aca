"""What a run gave, and what stands in a table (pure)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """One call: how long it took, how many conversations it held, how many got their own answer.

    `tokens` are the completion tokens that its usage tells; `failed`: there was none with status 200.
    """

    seconds: float
    conversations: int
    own: int
    tokens: int = 0
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """The calls of one row and the seconds from the first one's start to the last one's end."""

    outcomes: Sequence[Outcome]
    seconds: float

    @property
    def asked(self) -> int:
        """How many conversations were asked."""
        return sum(outcome.conversations for outcome in self.outcomes)

    @property
    def own(self) -> int:
        """How many got their own answer."""
        return sum(outcome.own for outcome in self.outcomes)

    @property
    def wrong(self) -> int:
        """How many got an answer that is not their own."""
        return sum(one.conversations - one.own for one in self.outcomes if not one.failed)

    @property
    def errors(self) -> float:
        """The share of calls that failed."""
        return sum(outcome.failed for outcome in self.outcomes) / max(1, len(self.outcomes))

    @property
    def per_second(self) -> float:
        """Conversations with their own answer, a second."""
        return self.own / self.seconds

    @property
    def mean_s(self) -> float:
        """The mean latency of a conversation."""
        latencies = self._latencies()
        return sum(latencies) / len(latencies)

    def quantile_s(self, share: float) -> float:
        """Return the latency that a `share` of conversations is at most, by nearest rank."""
        latencies = self._latencies()
        return latencies[max(0, math.ceil(share * len(latencies)) - 1)]

    @property
    def tokens_each(self) -> float:
        """Completion tokens of a conversation, on average."""
        return sum(outcome.tokens for outcome in self.outcomes) / max(1, self.own)

    def _latencies(self) -> list[float]:
        return sorted(one.seconds for one in self.outcomes for _ in range(one.conversations)) or [math.nan]


@dataclass(frozen=True, slots=True)
class Measure:
    """One column: its name and unit. `less`: less of it is better.

    `faster`: its ratio is naive / row, so that more is better. `plain` figures have no ratio (a share of
    errors, of which naive may have none).
    """

    name: str
    unit: str = ""
    less: bool = False
    faster: bool = False
    plain: bool = False

    def ratio(self, value: float | None, naive: float | None) -> float | None:
        """Return `value` against the naive row's; None where one of them is missing."""
        if self.plain or value is None or naive is None or not (value and naive):
            return None
        return naive / value if self.faster else value / naive


Figures = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One row: the article's figures and ours, in the order of the measures; () where there are none."""

    name: str
    theirs: Figures = ()
    ours: Figures = ()
    asked: int = 0
    wrong: int = 0
    errors: float = 0.0
    sidecar: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """One table. `naive` is the name of the row that all are divided by."""

    key: str
    title: str
    conditions: str
    measures: tuple[Measure, ...]
    naive: str
    rows: Sequence[Row]
    notes: str = ""

    def ratios(self, row: Row, place: int) -> tuple[float | None, float | None]:
        """Return (theirs, ours) of one measure, against the naive row."""
        naive = self.row(self.naive)
        measure = self.measures[place]
        return (
            measure.ratio(figure(row.theirs, place), figure(naive.theirs, place)),
            measure.ratio(figure(row.ours, place), figure(naive.ours, place)),
        )

    def row(self, name: str) -> Row:
        """Return the row of that name."""
        return next(row for row in self.rows if row.name == name)


@dataclass(frozen=True, slots=True)
class Promise:
    """What the project holds itself to, and whether this run kept it."""

    text: str
    measured: str
    kept: bool


def figure(figures: Figures, place: int) -> float | None:
    """Return the figure at `place`, None where the row has none."""
    return figures[place] if place < len(figures) else None
