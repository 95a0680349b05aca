"""`outrigger bench` as a process, against the simulated provider."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from control_plane.tools.provider import Provider, ProviderSettings, running_provider

KEY = "sk-bench-secret"


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    """A provider that wants a key and takes 2 ms a call."""
    async with running_provider(ProviderSettings(rtt_ms=2, api_keys=(KEY,))) as started:
        yield started


async def begun(provider: Provider, *options: str) -> asyncio.subprocess.Process:
    """Start the command."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "control_plane",
        *("bench", "--url", provider.url, "--model", "gpt-4o-mini", "--max-tokens", "4"),
        *options,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "OPENAI_API_KEY": KEY},
    )


async def ended(process: asyncio.subprocess.Process) -> tuple[int | None, str, str]:
    """Wait for the end; return status, stdout and stderr."""
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_a_run_is_reported_and_compared(provider: Provider, tmp_path: Path) -> None:
    """As JSON for scripts, as one page, and beside an earlier run; no key is in any of them."""
    first, page = tmp_path / "first.json", tmp_path / "page.html"
    options = ("--requests", "60", "--concurrency", "6", "-o", "json")
    status, out, err = await ended(await begun(provider, *options))
    assert (status, err) == (0, "")
    report: dict[str, Any] = json.loads(out)
    assert (report["requests"], report["errors"], report["results"]) == (60, 0, {"200": 60})
    assert report["rps"] > 0
    assert 2 < report["p50"] <= report["p99"] <= report["max"]
    first.write_text(out)

    more = (*options, "--stream", "--compare", str(first), "--html", str(page), "--name", "streams")
    status, out, err = await ended(await begun(provider, *more))
    assert (status, err) == (0, "")
    report = json.loads(out)
    assert report["ttft"]["p50"] > 2
    assert report["comparison"]["ratios"]["p50"] > 0
    html = page.read_text()
    assert "Load on streams" in html
    assert KEY not in first.read_text() + out + html
    assert provider.observations.requests.total() == 120


async def test_ctrl_c_reports_what_was_done(provider: Provider) -> None:
    """With status 0: the figures are good."""
    process = await begun(provider, "--rate", "100", "--duration", "60s", "-o", "json")
    async with asyncio.timeout(30):
        await provider.observations.until(lambda seen: seen.requests.total() >= 10)
    process.send_signal(signal.SIGINT)
    status, out, err = await ended(process)
    report = json.loads(out)
    assert (status, err, report["ended"]) == (0, "", "interrupted")
    assert 0 < report["requests"] < 3000
