"""Whole tunings against the simulated provider."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from control_plane.tools.load.calls import Operation
from control_plane.tools.load.wire import Endpoint
from control_plane.tools.provider import Provider, ProviderSettings, running_provider
from control_plane.tools.tune.asking import from_prompt
from control_plane.tools.tune.choosing import Demand
from control_plane.tools.tune.racing import Budget, Race
from control_plane.tools.tune.scoring import Prices
from control_plane.tools.tune.settings import Method, settings
from control_plane.tools.tune.tuning import Task, tuned

# A call costs 20 ms, a place in a batch next to nothing until decoding slows down: the middle is best.
QUICK = ProviderSettings(
    rtt_ms=20, slots=2, decode_ms_per_token=2, batch_slowdown=0.02, conversations=True, output_spread=0
)


def race(requests: int = 400, sizes: tuple[int, ...] = (1, 4, 16), max_tokens: int | None = None) -> Race:
    """Return a race that has not begun."""
    return Race(settings(sizes, ()), Demand(), Budget(requests, max_tokens), 16, random.Random(1), Prices())


async def made(
    provider: Provider,
    racing: Race,
    *,
    method: Method | None = None,
    duration_s: float = 30.0,
    stop: asyncio.Event | None = None,
) -> dict[str, Any]:
    """Tune, and return the report."""
    questions = from_prompt(Operation.CHAT, "m", "say {n}", 8)
    task = Task("m", Endpoint(provider.url), questions, method, duration_s, 0)
    return await tuned(task, racing, None, stop or asyncio.Event(), at="2026-01-01T00:00:00Z")


async def test_a_larger_batch_is_found_to_be_better() -> None:
    """By the method that the provider takes, within the budget, all of it seen by the provider."""
    async with running_provider(QUICK) as provider:
        report = await made(provider, race())
        assert provider.observations.requests.total() == report["budget"]["calls"]
    assert report["method"] == "array"
    assert report["best"] in {4, 16}
    assert report["gain"]["throughput"] > 1.5
    assert report["budget"]["asked"] <= 400
    assert all(one["errors"] == 0 for one in report["sizes"])


async def test_a_provider_that_takes_no_list_gets_waves() -> None:
    """And the report says so."""
    async with running_provider(QUICK.model_copy(update={"conversations": False})) as provider:
        report = await made(provider, race(200))
    assert report["method"] == "waves"
    assert report["warnings"]
    assert report["results"]["400"] == 1


@pytest.mark.parametrize("requests", [2, 3, 10])
async def test_the_smallest_budgets_are_kept(requests: int) -> None:
    """Warming up and finding the method are part of them."""
    async with running_provider(QUICK) as provider:
        report = await made(provider, race(requests))
        assert provider.observations.requests.total() <= requests
    assert report["budget"]["asked"] <= requests
    assert report["ended"] == "requests"


async def test_the_budget_of_tokens_is_kept() -> None:
    """As the provider counts them."""
    async with running_provider(QUICK) as provider:
        report = await made(provider, race(5000, max_tokens=2500), method=Method.ARRAY)
    assert 0 < report["budget"]["tokens"] <= 2500


async def test_a_target_that_refuses_everything_is_left_alone() -> None:
    """After the warming up."""
    async with running_provider(QUICK.model_copy(update={"api_keys": ("k",)})) as provider:
        report = await made(provider, race())
    assert (report["ended"], report["best"]) == ("failed", None)
    assert report["results"] == {"401": report["budget"]["asked"]}


@pytest.mark.parametrize("ending", ["time", "interrupted"])
async def test_it_ends_when_it_must_with_what_it_found(ending: str) -> None:
    """A trial that was cut short counts as asked."""
    stop = asyncio.Event()
    async with running_provider(QUICK.model_copy(update={"rtt_ms": 60})) as provider, asyncio.timeout(20):
        if ending == "interrupted":
            asyncio.get_running_loop().call_later(0.4, stop.set)
        limit_s = 0.4 if ending == "time" else 30.0
        report = await made(provider, race(5000), method=Method.ARRAY, duration_s=limit_s, stop=stop)
    assert report["ended"] == ending
    assert report["seconds"] < 10
    assert report["budget"]["asked"] > 0
