"""Calls with patience: tried again where that may help, always inside the budget."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from control_plane.tools.diagnose import prompts
from control_plane.tools.diagnose.budget import Budget, BudgetSpent
from control_plane.tools.diagnose.failures import CallFailed
from control_plane.tools.diagnose.sample import Sample
from control_plane.tools.diagnose.target import Target
from control_plane.tools.diagnose.wire import Connections
from control_plane.tools.load.calls import Operation, asking

TRIES: Final = 3
# A tokenizer may make more of a prompt than we think; what it does not take is given back.
SURPLUS: Final = 1.25
SURPLUS_TOKENS: Final = 16
MOST_WAIT_S: Final = 10.0
FIRST_WAIT_S: Final = 0.5
# How the limit of an answer is called, and the least that models which call it so take.
LIMITS: Final = (("max_tokens", 1), ("max_completion_tokens", 256))


class Send(Protocol):
    """Makes one call, without patience (`wire.Wire.call`)."""

    async def __call__(self, connections: Connections, body: dict[str, Any]) -> Sample:
        """Return its sample, or raise CallFailed."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: `most` tokens of answer, at a temperature, as a stream or whole."""

    text: str
    most: int = 1
    temperature: float | None = None
    stream: bool = False


class Caller:
    """Makes calls to one target.

    Attributes:
        failures: tries that failed, by reason; a 400 is our own question refused and is not among them.
        lost_ms: of each call that succeeded at a later try, the milliseconds until that one began.
    """

    def __init__(
        self, target: Target, send: Send, budget: Budget, sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        self.failures: Counter[str] = Counter()
        self.lost_ms: list[float] = []
        self._target = target
        self._send = send
        self._budget = budget
        self._sleep = sleep
        self._limit = LIMITS[0]

    async def first(self, connections: Connections, question: Question) -> Sample:
        """Make the first call, and learn how the model calls the limit of an answer.

        Raises:
            CallFailed: it has no answer.
            BudgetSpent: there is no room for it.
        """
        refusal: CallFailed | None = None
        for self._limit in LIMITS:
            try:
                return await self.call(connections, question)
            except CallFailed as error:
                if error.reason != "400":
                    raise
                refusal = refusal or error
            except BudgetSpent:
                break
        raise refusal or BudgetSpent

    async def call(self, connections: Connections, question: Question) -> Sample:
        """Make a call, up to three times.

        Raises:
            CallFailed: it has no answer, and another try would not help or would come too late.
            BudgetSpent: it does not fit any more.
        """
        loop = asyncio.get_running_loop()
        begun, wait_s = loop.time(), FIRST_WAIT_S
        for left in reversed(range(TRIES)):
            lost_ms = (loop.time() - begun) * 1000
            try:
                sample = await self.once(connections, question)
            except CallFailed as error:
                hint_s = wait_s if error.retry_after_s is None else error.retry_after_s
                if not left or not error.passing or hint_s > MOST_WAIT_S:
                    raise
                await self._sleep(hint_s)
                wait_s *= 2
            else:
                if left < TRIES - 1:
                    self.lost_ms.append(lost_ms)
                return sample
        raise AssertionError("the last try returns or raises")

    async def once(self, connections: Connections, question: Question, *, counted: bool = True) -> Sample:
        """Make one try, paid from the budget; unless `counted`, its failure is no failure of the target."""
        body = self._body(question)
        prompt = prompts.estimated_tokens(question.text)
        worth = SURPLUS_TOKENS + int(prompt * SURPLUS) + int(body.get(self._limit[0], 0))
        self._budget.take(worth)
        spent = 0
        try:
            sample = await self._send(connections, body)
            sample = replace(sample, prompt_tokens=sample.prompt_tokens or prompt)
            spent = sample.prompt_tokens + sample.output_tokens
        except CallFailed as error:
            if counted and error.reason != "400":
                self.failures[error.reason] += 1
            raise
        finally:
            self._budget.settle(worth, spent)
        return sample

    def _body(self, question: Question) -> dict[str, Any]:
        body = asking(self._target.operation, self._target.model, question.text)
        if self._target.operation is Operation.EMBEDDINGS:
            return body
        name, least = self._limit
        body[name] = max(question.most, least)
        if question.temperature is not None:
            body["temperature"] = question.temperature
        if question.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body
