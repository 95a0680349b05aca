"""A whole diagnosis finds what the simulated provider was told to be like."""

from __future__ import annotations

import asyncio
import random

import pytest

from control_plane.tools.diagnose.diagnosis import Bounds, Diagnosing, Diagnosis
from control_plane.tools.diagnose.target import Target
from control_plane.tools.provider import ProviderSettings, running_provider

MODEL = "gpt-4o-mini"


async def diagnosed(
    settings: ProviderSettings, bounds: Bounds, stop: asyncio.Event | None = None
) -> Diagnosis:
    """Run a diagnosis against such a provider."""
    async with running_provider(settings) as provider, asyncio.timeout(60):
        diagnosing = Diagnosing(
            Target.parse(provider.url, MODEL), bounds, ca=None, randomness=random.Random(1)
        )
        return await diagnosing.run(stop or asyncio.Event(), lambda _: None)


async def test_finds_what_is_there() -> None:
    """Cold start, connections, the knee, decoding: each with its field, the largest first."""
    settings = ProviderSettings(
        rtt_ms=20,
        cold_start_ms=1000,
        prefill_ms_per_token=0.01,
        prefill_knee_tokens=1000,
        prefill_ms_per_token_past_knee=0.1,
        decode_ms_per_token=2,
    )
    made = await diagnosed(settings, Bounds(requests=70, concurrency=4))
    report = made.as_json()
    assert report["requests"] <= 70
    assert report["cold"] >= 1000
    assert report["connections"]["gain"]["high"] >= 20
    assert report["prompt"]["slope_per_1000_past_knee"]["value"] == pytest.approx(100, rel=0.2)
    assert report["prompt"]["knee_tokens"]["value"] == pytest.approx(1000, abs=400)
    assert report["temperature"]["per_output_token"]["value"] == pytest.approx(2, rel=0.3)
    lengths = [point["output_tokens"] for point in report["temperature"]["points"]]
    assert lengths[0] < lengths[-1]
    first, *_ = report["findings"]
    assert first["spec"].keys() == {"warmup"}
    assert first["gain_ms"] == pytest.approx(1000, rel=0.1)
    fields = {name for finding in report["findings"] for name in finding["spec"]}
    assert {"warmup", "http", "parameters", "cache", "session"} <= fields


async def test_stays_inside_its_tokens() -> None:
    """Prompts shrink and probes end before the tokens are overdrawn."""
    made = await diagnosed(ProviderSettings(), Bounds(requests=60, tokens=3000, concurrency=2))
    assert made.spent.tokens <= 3000
    assert made.as_json()["prompt"]["points"]


async def test_a_stop_ends_it_with_what_there_is() -> None:
    """Stopped during the pause, the report is whole but for that."""
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(1.0, stop.set)
    made = await diagnosed(ProviderSettings(), Bounds(requests=12, concurrency=1, pause_s=600), stop)
    report = made.as_json()
    assert report["total"] is not None
    assert report["cold_start"]["after_pause"] is None
    assert "after a pause" in [gap["what"] for gap in report["unmeasured"]]
