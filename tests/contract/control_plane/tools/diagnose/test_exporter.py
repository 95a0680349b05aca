"""The exporter with real clients, as docs/tools/diagnose.md shows it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import openai
import pytest
from prometheus_client import CollectorRegistry

from control_plane.tools.diagnose.exporter import CallMetrics
from control_plane.tools.provider import Behaviour, ProviderSettings, running_provider

PAGE = Path(__file__).parents[5] / "docs" / "tools" / "diagnose.md"


def value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    """Return a metric's value, 0 where there is none."""
    return registry.get_sample_value(name, labels) or 0


async def test_the_openai_client() -> None:
    """JSON, stream, early end and error of the real client, each counted once."""
    registry = CollectorRegistry()
    http = CallMetrics(registry).watch(openai.DefaultAsyncHttpxClient(trust_env=False))
    messages: Any = [{"role": "user", "content": "hi"}]
    async with (
        running_provider(ProviderSettings(decode_ms_per_token=1)) as provider,
        openai.AsyncOpenAI(base_url=provider.url, api_key="sk-x", http_client=http, max_retries=0) as client,
    ):
        await client.chat.completions.create(model="gpt-4o", messages=messages)
        stream = await client.chat.completions.create(model="gpt-4o", messages=messages, stream=True)
        async for _ in stream:
            pass
        stream = await client.chat.completions.create(model="gpt-4o", messages=messages, stream=True)
        await anext(aiter(stream))
        await stream.close()
        provider.script(Behaviour(status=500, body={}))
        with pytest.raises(openai.InternalServerError):
            await client.chat.completions.create(model="gpt-4o", messages=messages)
    assert value(registry, "openai_request_total", status="200") == 2
    assert value(registry, "openai_request_total", status="aborted") == 1
    assert value(registry, "openai_request_total", status="500") == 1
    assert value(registry, "openai_request_duration_count", model="gpt-4o") == 4


async def test_the_example_of_the_page() -> None:
    """It runs as it is written, but for the address and the port."""
    source = re.search(r"```python\n(.*?CallMetrics.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert source is not None
    lines = [line for line in source[1].splitlines() if "start_http_server(" not in line]
    space: dict[str, Any] = {}
    exec("\n".join(lines), space)
    async with running_provider(ProviderSettings()) as provider:
        client = space["client"].with_options(base_url=provider.url, api_key="sk-x")
        await asyncio.to_thread(
            client.chat.completions.create, model="gpt-4o", messages=[{"role": "user", "content": "hi"}]
        )
    assert value(space["registry"], "openai_request_total", status="200") == 1
