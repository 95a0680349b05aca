"""A whole tuning: finds the method, warms up, races, and stops at the bounds it was given."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from control_plane.tools.load.running import Watch
from control_plane.tools.load.wire import Endpoint, connected
from control_plane.tools.tune.asking import Questions, natural_method
from control_plane.tools.tune.racing import Race
from control_plane.tools.tune.report import Report, Subject, report
from control_plane.tools.tune.settings import Ending, Method, Observation
from control_plane.tools.tune.trying import Mesh, Trier

WARM_UP_SHARE: Final = 20  # a twentieth of the budget at most
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be tuned. `method` None finds out what the target takes; `first` numbers the questions;
    `policy` is the name of the Policy, for the report.
    """

    model: str
    endpoint: Endpoint
    questions: Questions
    method: Method | None
    duration_s: float
    first: int
    policy: str | None = None


class _Cut(Exception):
    """The time is over, or a stop was asked for."""


async def tuned(
    task: Task, race: Race, mesh: Mesh | None, stop: asyncio.Event, watch: Watch | None = None, *, at: str
) -> Report:
    """Tune and return the report. `mesh` sets the policy of `Method.POLICY`; `at` is the time, RFC 3339.

    Raises:
        CannotConnect: the authority's file cannot be read.
    """
    began = time.monotonic()
    operation = task.questions.operation
    async with connected(task.endpoint) as send:
        trier = Trier(
            send,
            task.questions,
            task.method or natural_method(operation),
            callers=race.callers,
            first=task.first,
            mesh=mesh,
        )
        bounds = _Bounds(stop, began + task.duration_s)
        try:
            await _prepare(race, trier, bounds, find_method=task.method is None)
            await _run(race, trier, bounds, watch)
        except _Cut:
            race.ending = Ending.INTERRUPTED if stop.is_set() else Ending.TIME
    subject = Subject(task.endpoint.url, task.model, operation, trier.method, task.policy)
    return report(subject, race, at=at, seconds=time.monotonic() - began, results=trier.results)


async def _prepare(race: Race, trier: Trier, bounds: _Bounds, *, find_method: bool) -> None:
    """Warm up, and let single requests be sent together where the target takes no list of questions."""
    warming = await bounds.within(trier.warm_up(max(1, min(race.callers, race.budget.left // WARM_UP_SHARE))))
    _spend(race, warming)
    if not any(one.good for one in warming):
        race.ending = Ending.FAILED
        return
    if find_method and race.budget.left >= 2:
        taken, seen = await bounds.within(trier.takes_batches())
        _spend(race, [seen])
        if not taken:
            trier.method = Method.WAVES


async def _run(race: Race, trier: Trier, bounds: _Bounds, watch: Watch | None) -> None:
    """Make trials until the race is over. One that is cut short counts as asked, and tells nothing."""
    errors = 0
    while (trial := race.following()) is not None:
        if watch is not None:
            watch(race.budget.asked, errors)
        try:
            seen = await bounds.within(trier.observe(trial))
        except _Cut:
            race.budget.spend(trial.questions, 0)
            raise
        errors += sum(one.asked - one.good for one in seen)
        race.tell(trial.setting, seen)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """When to end: as soon as `stop` is set, or at the monotonic time `deadline`."""

    stop: asyncio.Event
    deadline: float

    async def within(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what `work` returns; raise _Cut when it was cut short."""
        task = asyncio.create_task(work)
        told = asyncio.create_task(self.stop.wait())
        left_s = max(0.0, self.deadline - time.monotonic())
        try:
            await asyncio.wait({task, told}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise _Cut
        finally:
            for one in (task, told):
                one.cancel()
            await asyncio.gather(task, told, return_exceptions=True)


def _spend(race: Race, seen: Sequence[Observation]) -> None:
    """Count questions that belong to no trial."""
    race.budget.spend(sum(one.asked for one in seen), sum(one.tokens for one in seen))
