"""`outrigger tune` as a process, against the simulated provider."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from control_plane.tools.provider import ProviderSettings, running_provider

KEY = "sk-tune-secret"


async def test_the_best_size_is_found_and_drawn(tmp_path: Path) -> None:
    """As JSON, as a page and as a figure; no key is in any of them."""
    page, figure = tmp_path / "page.html", tmp_path / "figure.svg"
    settings = ProviderSettings(rtt_ms=20, slots=2, prefill_ms_per_token=0.05, api_keys=(KEY,))
    async with running_provider(settings) as provider:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "control_plane",
            *("tune", "--url", provider.url, "--model", "text-embedding-3-small", "--sizes", "1,5,20"),
            *(
                "--requests",
                "300",
                "--concurrency",
                "2",
                "-o",
                "json",
                "--html",
                str(page),
                "--svg",
                str(figure),
            ),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "OPENAI_API_KEY": KEY},
        )
        async with asyncio.timeout(60):
            out, err = await process.communicate()
        asked = provider.observations.requests.total()
    assert (process.returncode, err.decode()) == (0, "")
    report = json.loads(out)
    assert [one["size"] for one in report["sizes"]] == [1, 5, 20]
    assert all(
        one["latency"] > 20 and one["throughput"] > 0 and one["errors"] == 0 for one in report["sizes"]
    )
    assert report["best"] == 20
    assert report["method"] == "native"
    assert asked == report["budget"]["calls"] <= report["budget"]["asked"] <= 300
    assert "best: " in figure.read_text()
    assert KEY not in out.decode() + page.read_text() + figure.read_text()
