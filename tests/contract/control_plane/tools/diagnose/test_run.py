"""The probes, against the simulated provider."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from control_plane.tools.diagnose.budget import Budget
from control_plane.tools.diagnose.caller import Caller
from control_plane.tools.diagnose.failures import DiagnoseFailed
from control_plane.tools.diagnose.plan import Plan
from control_plane.tools.diagnose.probes import Gap, Probe
from control_plane.tools.diagnose.run import Run
from control_plane.tools.diagnose.taken import Taken
from control_plane.tools.diagnose.target import Target
from control_plane.tools.diagnose.wire import Wire
from control_plane.tools.load.calls import Operation
from control_plane.tools.provider import Behaviour, Provider, ProviderSettings, running_provider

SMALL = Plan(
    pairs=2, prompts=(64, 500), temperatures=(0.2, 1.0), streams=1, http2=2, at_once=2, concurrency=2
)


async def at_once(_: float) -> None:
    """Sleep not at all."""


async def taken(
    provider: Provider,
    plan: Plan = SMALL,
    *,
    model: str = "m",
    budget: Budget | None = None,
    pause_s: float = 0,
    answered: list[Probe] | None = None,
) -> Taken:
    """Run the probes of `plan`."""
    target = Target.parse(provider.url, model)
    wire = Wire(target, 2.0)
    run = Run(
        wire,
        Caller(target, wire.call, budget or Budget(1000, 1_000_000), at_once),
        plan,
        chat=target.operation is not Operation.EMBEDDINGS,
        answer_tokens=64,
        pause_s=pause_s,
        randomness=random.Random(1),
        progress=(answered if answered is not None else []).append,
        sleep=at_once,
    )
    async with asyncio.timeout(20):
        return await run.all()


def counts(found: Taken) -> dict[Probe, int]:
    """Return how many samples each probe has."""
    return {probe: len(samples) for probe, samples in found.samples.items() if samples}


async def test_every_probe_of_the_plan() -> None:
    """Each call is kept under its probe, told as it is answered, and the plan says how many there are."""
    answered: list[Probe] = []
    async with running_provider(ProviderSettings()) as provider:
        found = await taken(provider, pause_s=1, answered=answered)
        opened = provider.observations.opened
    assert counts(found) == {
        Probe.FIRST: 1,
        Probe.FRESH: 2,
        Probe.KEPT: 2,
        Probe.PROMPT: 2,
        Probe.TEMPERATURE: 2,
        Probe.STREAM: 1,
        Probe.HTTP2_FRESH: 1,
        Probe.HTTP2_KEPT: 1,
        Probe.BURST_FRESH: 2,
        Probe.BURST_KEPT: 2,
        Probe.HTTP2_BURST_FRESH: 2,
        Probe.HTTP2_BURST_KEPT: 2,
        Probe.PAUSE: 1,
    }
    assert len(answered) == SMALL.calls + 1
    assert found.gaps == {}
    assert found.temperatures == [0.2, 1.0]
    assert all(sample.opened for sample in found.samples[Probe.FRESH])
    assert not any(sample.opened for sample in found.samples[Probe.PROMPT])
    assert found.samples[Probe.PROMPT][1].prompt_tokens == pytest.approx(500, rel=0.1)
    # One for the steady calls, one a pair, one for HTTP/2, two and one for the bursts, one after the pause.
    assert opened == 1 + 2 + 1 + 2 + 1 + 1


async def test_embeddings_have_no_temperature_and_no_stream() -> None:
    """The rest is measured all the same."""
    async with running_provider(ProviderSettings()) as provider:
        found = await taken(provider, model="text-embedding-3-small")
    assert found.gaps[Probe.TEMPERATURE] is Gap.NO_TEMPERATURE
    assert found.gaps[Probe.STREAM] is Gap.NO_STREAM
    assert len(found.samples[Probe.PROMPT]) == 2


async def test_a_budget_that_ends() -> None:
    """What was measured stays; the rest says that the budget was too small."""
    async with running_provider(ProviderSettings()) as provider:
        found = await taken(provider, budget=Budget(6, 1_000_000))
        seen = len(provider.observations.log)
    assert seen == 6
    assert counts(found) == {Probe.FIRST: 1, Probe.FRESH: 2, Probe.KEPT: 2, Probe.PROMPT: 1}
    assert found.gaps[Probe.TEMPERATURE] is Gap.BUDGET


async def test_one_call_at_a_time() -> None:
    """Concurrency 1 makes no bursts."""
    plan = Plan(pairs=1, prompts=(), temperatures=(), streams=0, http2=0, at_once=0, concurrency=1)
    async with running_provider(ProviderSettings()) as provider:
        found = await taken(provider, plan)
    assert found.gaps[Probe.BURST_FRESH] is Gap.ONE_AT_A_TIME
    assert found.gaps[Probe.HTTP2_FRESH] is Gap.BUDGET


async def test_failures_that_pass() -> None:
    """A refused call is made again and its loss is kept."""
    async with running_provider(ProviderSettings()) as provider:
        provider.script(Behaviour(generate=True), Behaviour(status=503, body={}))
        found = await taken(provider)
    assert found.failures == {"503": 1}
    assert len(found.lost_ms) == 1
    assert len(found.samples[Probe.FRESH]) == 2


async def test_a_probe_that_fails_again_and_again_ends() -> None:
    """It has no sample, the others go on."""
    plan = Plan(
        pairs=0, prompts=(64,) * 9, temperatures=(0.2, 1.0), streams=1, http2=0, at_once=0, concurrency=1
    )
    async with running_provider(ProviderSettings()) as provider:
        provider.script(Behaviour(generate=True), Behaviour(status=422, body={}, times=3))
        found = await taken(provider, plan)
    assert found.gaps[Probe.PROMPT] is Gap.FAILED
    assert found.failures == {"422": 3}
    assert len(found.samples[Probe.TEMPERATURE]) == 2


@pytest.mark.parametrize(
    ("behaviours", "gap", "probe"),
    [
        ([Behaviour(generate=True), Behaviour(status=400, body={})], Gap.NO_TEMPERATURE, Probe.TEMPERATURE),
        ([Behaviour(generate=True, times=2), Behaviour(body={"choices": [{}]})], Gap.NO_STREAM, Probe.STREAM),
        (
            [Behaviour(generate=True, times=3), Behaviour(raw_base64="SFRUUC8xLjEgNDAwIG5vDQoNCg==")],
            Gap.NO_HTTP2,
            Probe.HTTP2_BURST_FRESH,
        ),
    ],
    ids=["temperature", "stream", "HTTP/2"],
)
async def test_what_a_server_has_not(behaviours: list[Behaviour], gap: Gap, probe: Probe) -> None:
    """Said in words, not counted as a failure of calls."""
    plan = Plan(pairs=0, prompts=(), temperatures=(0.2,), streams=1, http2=2, at_once=2, concurrency=2)
    async with running_provider(ProviderSettings()) as provider:
        provider.script(*behaviours)
        found = await taken(provider, plan)
    assert found.gaps[probe] is gap
    assert found.samples[Probe.BURST_FRESH]


async def test_a_quota_is_no_missing_http2() -> None:
    """A refusal over HTTP/2 is waited for."""
    plan = Plan(pairs=0, prompts=(), temperatures=(), streams=0, http2=2, at_once=0, concurrency=1)
    async with running_provider(ProviderSettings()) as provider:
        provider.script(Behaviour(generate=True), Behaviour(status=429, body={}, times=2))
        found = await taken(provider, plan)
        provider.script(Behaviour(generate=True), Behaviour(status=422, body={}, times=2))
        refused = await taken(provider, plan)
    assert len(found.samples[Probe.HTTP2_FRESH]) == 1
    assert refused.gaps[Probe.HTTP2_FRESH] is Gap.FAILED


async def test_a_server_that_keeps_no_connection() -> None:
    """Its second calls open one too; that is said, and they are not taken for kept ones."""
    closing: dict[str, Any] = {"generate": True, "headers": (("connection", "close"),), "times": 0}
    async with running_provider(ProviderSettings()) as provider:
        provider.script(Behaviour(**closing))
        found = await taken(provider)
    assert found.gaps[Probe.KEPT] is Gap.NOT_KEPT
    assert len(found.samples[Probe.FRESH]) == 4


async def test_a_first_call_that_fails() -> None:
    """Nothing can be measured, and one sentence says why."""
    async with running_provider(ProviderSettings(models=("other",))) as provider:
        with pytest.raises(DiagnoseFailed, match="no model m"):
            await taken(provider)
        with pytest.raises(DiagnoseFailed, match="no room for one call"):
            await taken(provider, budget=Budget(10, 2))
