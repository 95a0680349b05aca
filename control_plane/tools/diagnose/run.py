"""Makes the calls of a plan, probe by probe, and keeps their samples.

A probe that keeps failing ends and the others go on; only the very first call must succeed.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final

from control_plane.tools.diagnose import prompts
from control_plane.tools.diagnose.budget import BudgetSpent
from control_plane.tools.diagnose.caller import Caller, Question
from control_plane.tools.diagnose.failures import CallFailed, DiagnoseFailed
from control_plane.tools.diagnose.plan import Plan
from control_plane.tools.diagnose.probes import BURST_PROBES, HTTP2_PROBES, Gap, Probe
from control_plane.tools.diagnose.sample import Sample
from control_plane.tools.diagnose.taken import Taken
from control_plane.tools.diagnose.wire import Connections, Http, Wire

IN_A_ROW: Final = 3
HTTP2_ANSWER_S: Final = 5.0

Progress = Callable[[Probe], None]


class _GivenUp(Exception):
    """A probe fails again and again."""


class Run:
    """One diagnosis.

    Args:
        wire: opens connections.
        caller: makes calls on them, inside the budget.
        plan: the calls of each probe.
        chat: whether the model answers in words; else it makes embeddings.
        answer_tokens: limit of the answers whose length is measured.
        pause_s: a silence before one last call; 0 for none.
        randomness: makes prompts that nobody has seen.
        progress: told of each call that is answered.
        sleep: waits some seconds.
    """

    def __init__(
        self,
        wire: Wire,
        caller: Caller,
        plan: Plan,
        *,
        chat: bool,
        answer_tokens: int,
        pause_s: float,
        randomness: random.Random,
        progress: Progress,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._taken = Taken(failures=caller.failures, lost_ms=caller.lost_ms)
        self._wire = wire
        self._caller = caller
        self._plan = plan
        self._chat = chat
        self._answer_tokens = answer_tokens
        self._pause_s = pause_s
        self._randomness = randomness
        self._progress = progress
        self._sleep = sleep
        self._failed_in_a_row = 0

    async def all(self) -> Taken:
        """Make all calls and return what they brought.

        Raises:
            DiagnoseFailed: the first call has no answer, so nothing can be measured.
        """
        try:
            async with self._wire.connections() as steady:
                self._keep(Probe.FIRST, await self._caller.first(steady, self._short()))
                await self._step(self._pairs(), Probe.FRESH, Probe.KEPT)
                await self._step(self._prompts(steady), Probe.PROMPT)
                await self._step(self._temperatures(steady), Probe.TEMPERATURE)
                await self._step(self._streams(steady), Probe.STREAM)
        except CallFailed as error:
            raise DiagnoseFailed(str(error)) from None
        except BudgetSpent:
            raise DiagnoseFailed("the budget has no room for one call; raise --max-tokens") from None
        await self._step(self._http2(), Probe.HTTP2_FRESH, Probe.HTTP2_KEPT)
        await self._step(self._burst("1.1"), *BURST_PROBES["1.1"])
        await self._step(self._burst("2"), *BURST_PROBES["2"])
        await self._step(self._pause(), Probe.PAUSE)
        return self._taken

    async def _step(self, step: Awaitable[None], *probes: Probe) -> None:
        """Make one step; say why each of its probes has no sample, if it has none."""
        self._failed_in_a_row = 0
        try:
            await step
        except BudgetSpent:
            pass
        except (_GivenUp, CallFailed):
            self._failed_in_a_row += 1
        why = Gap.FAILED if self._failed_in_a_row else Gap.BUDGET
        for probe in probes:
            if not self._taken.samples[probe]:
                self._taken.gaps.setdefault(probe, why)

    async def _pairs(self) -> None:
        """Call on a new connection, then once more on it, so that both meet the same conditions."""
        for _ in range(self._plan.pairs):
            async with self._wire.connections() as fresh:
                for probe in (Probe.FRESH, Probe.KEPT):
                    sample = await self._tried(fresh, self._short())
                    self._keep(Probe.FRESH if sample and sample.opened else probe, sample)
        if self._taken.samples[Probe.FRESH] and not self._taken.samples[Probe.KEPT]:
            self._taken.gaps[Probe.KEPT] = Gap.NOT_KEPT

    async def _prompts(self, steady: Connections) -> None:
        for size in self._plan.prompts:
            question = Question(prompts.long(size, self._randomness))
            self._keep(Probe.PROMPT, await self._on_kept(steady, question))

    async def _temperatures(self, steady: Connections) -> None:
        if not self._chat:
            self._taken.gaps[Probe.TEMPERATURE] = Gap.NO_TEMPERATURE
            return
        for temperature in self._plan.temperatures:
            question = Question(prompts.telling(self._randomness), self._answer_tokens, temperature)
            try:
                sample = await self._on_kept(steady, question, refusable=True)
            except CallFailed:
                self._taken.gaps[Probe.TEMPERATURE] = Gap.NO_TEMPERATURE
                return
            if sample is not None:
                self._taken.temperatures.append(temperature)
                self._keep(Probe.TEMPERATURE, sample)

    async def _streams(self, steady: Connections) -> None:
        if not self._chat:
            self._taken.gaps[Probe.STREAM] = Gap.NO_STREAM
            return
        for _ in range(self._plan.streams):
            question = Question(prompts.telling(self._randomness), self._answer_tokens, stream=True)
            self._keep(Probe.STREAM, await self._on_kept(steady, question))
        if self._failed_in_a_row:
            self._taken.gaps[Probe.STREAM] = Gap.NO_STREAM

    async def _http2(self) -> None:
        if not self._plan.http2:
            return
        async with self._wire.connections("2") as connections:
            first = await self._first_of_http2(connections)
            if first is None or not first.http2:
                self._taken.gaps.update(dict.fromkeys(HTTP2_PROBES, Gap.NO_HTTP2))
                return
            self._keep(Probe.HTTP2_FRESH, first)
            for _ in range(self._plan.http2 - 1):
                self._keep(Probe.HTTP2_KEPT, await self._tried(connections, self._short()))

    async def _first_of_http2(self, connections: Connections) -> Sample | None:
        """Make one call; None when the server does not seem to understand it.

        Raises:
            CallFailed: it understands and refuses.
        """
        patience_s = HTTP2_ANSWER_S + 3 * self._taken.samples[Probe.FIRST][0].total_ms / 1000
        try:
            async with asyncio.timeout(patience_s):
                return await self._caller.once(connections, self._short(), counted=False)
        except TimeoutError:
            return None
        except CallFailed as error:
            if not error.reason.isdigit():
                return None
        return await self._caller.call(connections, self._short())

    async def _burst(self, http: Http) -> None:
        """Make many calls at once on no connection, and again on those that are then there."""
        if self._plan.at_once < 2:
            why = Gap.ONE_AT_A_TIME if self._plan.concurrency < 2 else Gap.BUDGET
            self._taken.gaps.update(dict.fromkeys(BURST_PROBES[http], why))
            return
        if http == "2" and not self._taken.samples[Probe.HTTP2_FRESH]:
            why = self._taken.gaps.get(Probe.HTTP2_FRESH, Gap.BUDGET)
            self._taken.gaps.update(dict.fromkeys(BURST_PROBES[http], why))
            return
        most = self._plan.at_once if http == "1.1" else 1
        async with self._wire.connections(http, most) as connections:
            for kept, probe in enumerate(BURST_PROBES[http]):
                questions = [self._short() for _ in range(self._plan.at_once)]
                begun = time.process_time()
                async with asyncio.TaskGroup() as group:
                    calls = [group.create_task(self._in_burst(connections, one)) for one in questions]
                self._taken.own_ms[probe] = (time.process_time() - begun) * 1000
                for call in calls:
                    sample = call.result()
                    if sample is not None and not (kept and sample.opened):
                        self._keep(probe, sample)

    async def _in_burst(self, connections: Connections, question: Question) -> Sample | None:
        """Make one call of a burst; None when it fails or does not fit into the budget."""
        try:
            return await self._tried(connections, question)
        except (BudgetSpent, _GivenUp):
            return None

    async def _pause(self) -> None:
        if not self._pause_s:
            self._taken.gaps[Probe.PAUSE] = Gap.NO_PAUSE
            return
        await self._sleep(self._pause_s)
        async with self._wire.connections() as connections:
            self._keep(Probe.PAUSE, await self._tried(connections, self._short()))

    async def _on_kept(
        self, steady: Connections, question: Question, *, refusable: bool = False
    ) -> Sample | None:
        """Make a call on a connection that is there; if it had to be opened, make it once more."""
        sample = await self._tried(steady, question, refusable=refusable)
        if sample is not None and sample.opened:
            sample = await self._tried(steady, question, refusable=refusable)
        return None if sample is None or sample.opened else sample

    async def _tried(
        self, connections: Connections, question: Question, *, refusable: bool = False
    ) -> Sample | None:
        """Make a call; None when it fails for good.

        Raises:
            BudgetSpent: it does not fit any more.
            CallFailed: it is `refusable` and refused with 400.
            _GivenUp: so many have failed in a row that the next one will.
        """
        try:
            sample = await self._caller.call(connections, question)
        except CallFailed as error:
            if refusable and error.reason == "400":
                raise
            self._failed_in_a_row += 1
            if self._failed_in_a_row >= IN_A_ROW:
                raise _GivenUp from None
            return None
        self._failed_in_a_row = 0
        return sample

    def _short(self) -> Question:
        return Question(prompts.short(self._randomness))

    def _keep(self, probe: Probe, sample: Sample | None) -> None:
        if sample is not None:
            self._taken.samples[probe].append(sample)
            self._progress(probe)
