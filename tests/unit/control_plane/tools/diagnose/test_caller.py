"""Calls with patience."""

from typing import Any

import pytest

from control_plane.tools.diagnose.budget import Budget, BudgetSpent
from control_plane.tools.diagnose.caller import Caller, Question
from control_plane.tools.diagnose.failures import CallFailed
from control_plane.tools.diagnose.sample import Sample
from control_plane.tools.diagnose.target import Target
from control_plane.tools.diagnose.wire import Connections

GOOD = Sample(1.0, 2.0, prompt_tokens=9, output_tokens=1)
NOWHERE: Connections = None  # type: ignore[assignment]


class Script:
    """Answers call by call, and remembers what it was asked and how long it was left alone."""

    def __init__(self, *answers: Sample | CallFailed) -> None:
        self.answers = list(answers)
        self.bodies: list[dict[str, Any]] = []
        self.slept: list[float] = []

    async def send(self, connections: Connections, body: dict[str, Any]) -> Sample:
        """Give the next answer."""
        self.bodies.append(body)
        answer = self.answers.pop(0)
        if isinstance(answer, CallFailed):
            raise answer
        return answer

    async def sleep(self, seconds: float) -> None:
        """Return at once."""
        self.slept.append(seconds)

    def caller(self, budget: Budget | None = None, model: str = "m") -> Caller:
        """Return a caller that is answered by this."""
        target = Target.parse("http://h/v1", model)
        return Caller(target, self.send, budget or Budget(10, 10_000), self.sleep)


def busy(after_s: float | None = None) -> CallFailed:
    """Return a refusal that passes."""
    return CallFailed("busy", "429", retry_after_s=after_s)


async def test_waits_as_long_as_it_is_told() -> None:
    """A refusal is tried again after its hint, else after half a second, then twice that."""
    script = Script(busy(2.0), busy(), GOOD)
    caller = script.caller()
    assert await caller.call(NOWHERE, Question("hi")) == GOOD
    assert script.slept == [2.0, 1.0]
    assert caller.failures == {"429": 2}
    assert len(caller.lost_ms) == 1


@pytest.mark.parametrize(
    "failures",
    [[busy(), busy(), busy()], [busy(60.0)], [CallFailed("no", "401")], [CallFailed("late", "timeout")]],
    ids=["three times", "a long hint", "refused", "timeout"],
)
async def test_gives_up(failures: list[CallFailed]) -> None:
    """After three tries, at a hint that is too long, and at what another try would not heal."""
    script = Script(*failures)
    with pytest.raises(CallFailed):
        await script.caller().call(NOWHERE, Question("hi"))
    assert script.answers == []


async def test_the_budget_holds_for_tries() -> None:
    """A try that does not fit is not made; tokens that were not used come back."""
    budget = Budget(2, 10_000)
    script = Script(busy(), busy(), GOOD)
    with pytest.raises(BudgetSpent):
        await script.caller(budget).call(NOWHERE, Question("hi"))
    assert len(script.bodies) == 2
    assert (budget.requests, budget.tokens, budget.tokens_left) == (2, 0, 10_000)


async def test_tokens_are_settled() -> None:
    """What the answer says counts; without usage, the estimate of the prompt."""
    budget = Budget(10, 10_000)
    script = Script(GOOD, Sample(1.0, 2.0))
    caller = script.caller(budget)
    await caller.call(NOWHERE, Question("hi"))
    assert budget.tokens == 10
    sample = await caller.call(NOWHERE, Question("hi" * 20))
    assert sample.prompt_tokens == 14


async def test_a_model_that_calls_the_limit_otherwise() -> None:
    """The first call learns it; a refusal of our own question is no failure of the target."""
    script = Script(CallFailed("no", "400"), GOOD, GOOD)
    caller = script.caller()
    await caller.first(NOWHERE, Question("hi"))
    await caller.call(NOWHERE, Question("hi", most=300, temperature=0.2, stream=True))
    assert [body.get("max_tokens") for body in script.bodies] == [1, None, None]
    assert [body.get("max_completion_tokens") for body in script.bodies] == [None, 256, 300]
    assert script.bodies[2]["temperature"] == 0.2
    assert script.bodies[2]["stream_options"] == {"include_usage": True}
    assert caller.failures == {}


async def test_a_first_call_that_no_wording_helps() -> None:
    """The first refusal is told."""
    with pytest.raises(CallFailed, match="first"):
        await (
            Script(CallFailed("first", "400"), CallFailed("second", "400"))
            .caller()
            .first(NOWHERE, Question("hi"))
        )
    with pytest.raises(BudgetSpent):
        await Script().caller(Budget(1, 1)).first(NOWHERE, Question("hi"))


async def test_embeddings_have_no_limit() -> None:
    """Their body is model and input."""
    script = Script(GOOD)
    await script.caller(model="text-embedding-3-small").call(NOWHERE, Question("hi", most=5))
    assert script.bodies == [{"model": "text-embedding-3-small", "input": "hi"}]
