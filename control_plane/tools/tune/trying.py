"""Trials: asks questions with one setting and observes what comes."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any, Protocol

from control_plane.tools.load.wire import Outcome, Send
from control_plane.tools.tune.asking import Questions
from control_plane.tools.tune.racing import Trial, places
from control_plane.tools.tune.settings import Method, Observation, Setting


class Mesh(Protocol):
    """The policy that sidecars batch by."""

    async def set(self, setting: Setting) -> None:
        """Return once `setting` is in force on every sidecar."""


class Trier:
    """Makes trials by one method.

    Args:
        first: the number of the first question.
        mesh: what sets the policy; for `Method.POLICY` alone.
    """

    def __init__(
        self,
        send: Send,
        questions: Questions,
        method: Method,
        *,
        callers: int,
        first: int,
        mesh: Mesh | None = None,
    ) -> None:
        self.results: Counter[str] = Counter()
        self._send = send
        self._questions = questions
        self.method = method
        self._callers = callers
        self._mesh = mesh
        self._items: Iterator[Any] = questions.asked(first)

    async def observe(self, trial: Trial) -> list[Observation]:
        """Ask the questions of a trial: whole batches, as many at once as there are places for.

        A cancelled trial has asked and tells nothing.
        """
        size = trial.setting.size
        if self._mesh is not None:
            await self._mesh.set(trial.setting)
        if self.method is Method.POLICY:
            return await self._singly(trial.questions, places(size, self._callers))
        batches = max(1, trial.questions // size)
        lanes = max(1, min(batches, places(size, self._callers) // size))
        seen: list[Observation] = []
        left = iter(range(batches))

        async def lane() -> None:
            for _ in left:
                items = list(islice(self._items, size))
                seen.extend(await (self._wave(items) if self.method is Method.WAVES else self._batch(items)))

        async with asyncio.TaskGroup() as group:
            for _ in range(lanes):
                group.create_task(lane())
        return seen

    async def warm_up(self, questions: int) -> list[Observation]:
        """Ask that many at once, so that no trial pays for connections or a cold start."""
        return await self._wave(list(islice(self._items, questions)))

    async def takes_batches(self) -> tuple[bool, Observation]:
        """Return whether two questions in one call get two answers, and what asking cost."""
        (seen,) = await self._batch(list(islice(self._items, 2)))
        return seen.good == 2, seen

    async def _batch(self, items: list[Any]) -> list[Observation]:
        return [self._observed(await self._send(self._questions.batch(items)), len(items))]

    async def _wave(self, items: list[Any]) -> list[Observation]:
        began = time.perf_counter()
        outcomes = await asyncio.gather(*(self._send(self._questions.single(item)) for item in items))
        # The places of a wave are free again when all of it is answered.
        held_s = time.perf_counter() - began
        return [self._observed(outcome, 1, held_s) for outcome in outcomes]

    async def _singly(self, questions: int, callers: int) -> list[Observation]:
        seen: list[Observation] = []
        left = iter(range(questions))

        async def caller() -> None:
            for _ in left:
                (item,) = islice(self._items, 1)
                seen.append(self._observed(await self._send(self._questions.single(item)), 1))

        async with asyncio.TaskGroup() as group:
            for _ in range(min(callers, questions)):
                group.create_task(caller())
        return seen

    def _observed(self, outcome: Outcome, asked: int, held_s: float | None = None) -> Observation:
        verdict = outcome.verdict
        self.results[verdict.result] += 1
        seconds = outcome.ended - outcome.began
        return Observation(
            latency_s=seconds,
            held_s=(seconds if held_s is None else held_s) * asked,
            asked=asked,
            good=asked if verdict.good else 0,
            tokens=verdict.prompt_tokens + verdict.completion_tokens,
            prompt_tokens=verdict.prompt_tokens,
        )
