"""What a trial is made of: a provider, documents for the mesh, and two sets of rows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from tests.reproduce.lab import Conditions, Ports
from tests.reproduce.measured import Figures, Measure, Promise, Row, Run, Table


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is asked: `rounds` of calls, or `seconds` of a load, the first `ramp_s` of it a ramp.

    `chats` go through the sidecar where the article asks 2,000.
    """

    rounds: int
    seconds: float
    ramp_s: float
    chats: int

    @classmethod
    def quick(cls) -> Effort:
        """At most a minute and a half in all."""
        return cls(rounds=2, seconds=3, ramp_s=1, chats=1_000)

    @classmethod
    def full(cls) -> Effort:
        """At most six minutes in all."""
        return cls(rounds=5, seconds=20, ramp_s=7, chats=2_000)


Rows = Callable[[Ports, Effort], Awaitable[list[Row]]]


@dataclass(frozen=True, slots=True)
class Trial:
    """One table to be measured. Its rows are the direct ones, then those `through` the sidecar.

    `patient`: its direct rows wait more than they compute, so they are measured beside other trials'.
    `promises` judges the finished table.
    """

    key: str
    title: str
    conditions: str
    provider: Conditions
    documents: Sequence[str]
    measures: tuple[Measure, ...]
    naive: str
    direct: Rows
    through: Rows
    notes: str = ""
    patient: bool = False
    promises: Callable[[Table], list[Promise]] = lambda table: []

    def table(self, rows: Sequence[Row]) -> Table:
        """Return the table of these rows."""
        return Table(self.key, self.title, self.conditions, self.measures, self.naive, rows, self.notes)


@dataclass(frozen=True, slots=True)
class Article:
    """One article: what it is about, and its tables."""

    title: str
    about: str
    trials: Sequence[Trial]


def measured(
    name: str, theirs: Figures, run: Run, ours: Callable[[Run], Figures], *, sidecar: bool = False
) -> Row:
    """Return the row of a run."""
    return Row(name, theirs, ours(run), run.asked, run.wrong, run.errors, sidecar)
