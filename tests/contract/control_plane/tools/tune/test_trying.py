"""Trials against the simulated provider."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest

from control_plane.tools.load.calls import Operation
from control_plane.tools.load.wire import Endpoint, connected
from control_plane.tools.provider import Behaviour, Provider, ProviderSettings, running_provider
from control_plane.tools.tune.asking import from_prompt, natural_method
from control_plane.tools.tune.racing import Trial
from control_plane.tools.tune.settings import Method, Setting
from control_plane.tools.tune.trying import Mesh, Trier


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    """A provider that takes lists of conversations and remembers what it was asked."""
    async with running_provider(
        ProviderSettings(rtt_ms=5, conversations=True, log_body_bytes=100_000)
    ) as started:
        yield started


@asynccontextmanager
async def trier(
    provider: Provider, method: Method, operation: Operation, callers: int, mesh: Mesh | None = None
) -> AsyncIterator[Trier]:
    """Make trials with so many callers."""
    questions = from_prompt(operation, "m", "say {n}", 2)
    async with connected(Endpoint(provider.url)) as send:
        yield Trier(send, questions, method, callers=callers, first=0, mesh=mesh)


@pytest.mark.parametrize("operation", list(Operation))
async def test_batches_are_made_and_all_answered(provider: Provider, operation: Operation) -> None:
    """Whole ones, no question twice; each holds its places as long as it takes."""
    async with trier(provider, natural_method(operation), operation, 10) as made:
        seen = await made.observe(Trial(Setting(5), 23))
    assert [(one.asked, one.good) for one in seen] == [(5, 5)] * 4
    assert all(one.held_s == pytest.approx(5 * one.latency_s) and one.latency_s > 0.005 for one in seen)
    assert all(one.tokens >= one.prompt_tokens > 0 for one in seen)
    bodies = [orjson.loads(record.body or "") for record in provider.observations.log]
    field = {"chat": "messages", "completions": "prompt", "embeddings": "input"}[operation.value]
    asked = [orjson.dumps(item) for body in bodies for item in body[field]]
    assert len(asked) == len(set(asked)) == 20
    assert made.results == {"200": 4}


async def test_callers_bound_the_batches_in_flight() -> None:
    """Ten callers are two batches of five."""
    async with (
        running_provider(ProviderSettings(rtt_ms=20)) as provider,
        trier(provider, Method.NATIVE, Operation.EMBEDDINGS, 10) as made,
    ):
        await made.observe(Trial(Setting(5), 40))
        assert provider.observations.opened == 2


async def test_a_wave_is_sent_at_once_and_its_places_wait_for_the_last(provider: Provider) -> None:
    """Single requests; the quick ones hold their places as long as the slow one."""
    provider.script(Behaviour(generate=True, delay_ms=250))
    async with trier(provider, Method.WAVES, Operation.CHAT, 4) as made:
        seen = await made.observe(Trial(Setting(4), 4))
    assert [one.asked for one in seen] == [1] * 4
    latencies = sorted(one.latency_s for one in seen)
    assert latencies[0] < 0.25 < latencies[-1]
    assert all(one.held_s >= latencies[-1] for one in seen)
    assert provider.observations.requests.total() == 4


async def test_a_policy_is_set_before_single_requests_are_sent(provider: Provider) -> None:
    """The sidecar makes the batches."""
    order: list[Setting | int] = []

    class Recorder:
        async def set(self, setting: Setting) -> None:
            order.extend((setting, provider.observations.requests.total()))

    async with trier(provider, Method.POLICY, Operation.CHAT, 8, Recorder()) as made:
        seen = await made.observe(Trial(Setting(4, 50), 12))
        await made.observe(Trial(Setting(2, 50), 4))
    assert [one.asked for one in seen] == [1] * 12
    assert order == [Setting(4, 50), 0, Setting(2, 50), 12]


async def test_an_error_loses_the_questions_of_its_batch(provider: Provider) -> None:
    """It is counted by its status."""
    provider.script(Behaviour(status=500, body={}))
    async with trier(provider, Method.ARRAY, Operation.CHAT, 4) as made:
        seen = await made.observe(Trial(Setting(4), 8))
    assert sorted(one.good for one in seen) == [0, 4]
    assert made.results == {"500": 1, "200": 1}


@pytest.mark.parametrize("takes", [True, False])
async def test_it_is_found_out_whether_lists_are_taken(takes: bool) -> None:
    """By asking two questions in one call."""
    async with (
        running_provider(ProviderSettings(conversations=takes)) as provider,
        trier(provider, Method.ARRAY, Operation.CHAT, 4) as made,
    ):
        found, seen = await made.takes_batches()
    assert (found, seen.asked) == (takes, 2)


async def test_warming_up_asks_single_questions(provider: Provider) -> None:
    """At once, so that there are connections."""
    async with trier(provider, Method.NATIVE, Operation.EMBEDDINGS, 4) as made:
        seen = await made.warm_up(6)
    assert [one.good for one in seen] == [1] * 6
    assert provider.observations.opened == 6
    assert all(
        not isinstance(orjson.loads(one.body or "")["input"], list) for one in provider.observations.log
    )


def test_questions_never_end() -> None:
    """A trial may be as long as its budget."""
    questions = from_prompt(Operation.CHAT, "m", "say {n}")
    assert len(list(itertools.islice(questions.asked(0), 1000))) == 1000
