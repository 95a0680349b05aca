"""A whole diagnosis: a plan, its calls, what they say."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from control_plane.tools.diagnose.budget import Budget
from control_plane.tools.diagnose.caller import Caller
from control_plane.tools.diagnose.findings import Findings, findings
from control_plane.tools.diagnose.plan import plan
from control_plane.tools.diagnose.readings import Readings, read
from control_plane.tools.diagnose.rehearsal import rehearse
from control_plane.tools.diagnose.report import Spent, as_json
from control_plane.tools.diagnose.run import Progress, Run
from control_plane.tools.diagnose.target import Target
from control_plane.tools.diagnose.wire import Wire
from control_plane.tools.load.calls import Operation


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a diagnosis may spend, and how far it goes.

    `requests` and `tokens` bound all calls together. `concurrency` is the size of a burst, `prompt_tokens`
    the longest prompt, `answer_tokens` the longest answer, `pause_s` a silence before one last call, or 0.
    """

    requests: int = 110
    tokens: int = 100_000
    concurrency: int = 8
    prompt_tokens: int = 4000
    answer_tokens: int = 256
    timeout_s: float = 60.0
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was measured and what it means."""

    spent: Spent
    readings: Readings
    findings: Findings

    def as_json(self) -> dict[str, Any]:
        """Return it as one document (`report.as_json`)."""
        return as_json(self.spent, self.readings, self.findings)


class Diagnosing:
    """A diagnosis that is about to be made.

    Args:
        target: what is diagnosed.
        bounds: what may be spent.
        ca: PEM file of authorities that the server's certificate is verified against.
        randomness: makes prompts that nobody has seen.

    Raises:
        DiagnoseFailed: the PEM file cannot be used.
    """

    def __init__(self, target: Target, bounds: Bounds, *, ca: Path | None, randomness: random.Random) -> None:
        self.plan = plan(bounds.requests, bounds.tokens, bounds.concurrency, bounds.prompt_tokens, randomness)
        self.calls = self.plan.calls + bool(bounds.pause_s)
        self._target = target
        self._bounds = bounds
        self._randomness = randomness
        self._wire = Wire(target, bounds.timeout_s, ca)

    async def run(self, stop: asyncio.Event, progress: Progress) -> Diagnosis:
        """Measure and say what can be gained; a set `stop` ends it with what there is.

        Raises:
            DiagnoseFailed: the first call has no answer.
        """

        async def sleep(seconds: float) -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await stop.wait()

        await rehearse()
        begun = time.monotonic()
        budget = Budget(self._bounds.requests, self._bounds.tokens, stop.is_set)
        run = Run(
            self._wire,
            Caller(self._target, self._wire.call, budget, sleep),
            self.plan,
            chat=self._target.operation is not Operation.EMBEDDINGS,
            answer_tokens=self._bounds.answer_tokens,
            pause_s=self._bounds.pause_s,
            randomness=self._randomness,
            progress=progress,
            sleep=sleep,
        )
        readings = read(await run.all(), tls=self._target.tls, at_once=self.plan.at_once)
        seconds = time.monotonic() - begun
        spent = Spent(self._target.url, self._target.model, budget.requests, budget.tokens, seconds)
        return Diagnosis(spent, readings, findings(readings))
