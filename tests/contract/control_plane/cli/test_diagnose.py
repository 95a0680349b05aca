"""`outrigger diagnose` as a process, against the simulated provider."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator

import pytest

from control_plane.tools.provider import Behaviour, Provider, ProviderSettings, running_provider
from tests.harness.preloaded import Preloaded, preloaded

KEY = "sk-diagnose-secret"


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    """A provider that wants a key and is cold at first."""
    settings = ProviderSettings(rtt_ms=2, cold_start_ms=300, api_keys=(KEY,), models=("gpt-4o-mini",))
    async with running_provider(settings) as started:
        yield started


@pytest.fixture(scope="module")
def loaded() -> Iterator[Preloaded]:
    """The command with all that it needs."""
    with preloaded("control_plane.cli.diagnose", "control_plane.tools.diagnose") as running:
        yield running


def words(url: str, *options: str, model: str = "gpt-4o-mini") -> list[str]:
    """Return the command line."""
    return ["diagnose", "--url", url, "--model", model, *options]


async def ended(
    loaded: Preloaded, url: str, *options: str, key: str = KEY, **model: str
) -> tuple[int, str, str]:
    """Run the command to its end; return status, stdout and stderr."""
    command = words(url, *options, **model)
    done = await asyncio.to_thread(loaded.run, command, {"OPENAI_API_KEY": key})
    return done.returncode, done.stdout, done.stderr


async def test_a_report_for_scripts(loaded: Preloaded, provider: Provider) -> None:
    """JSON with the promised names, within the budget; no key, no prompt, nothing on stderr."""
    status, out, err = await ended(loaded, provider.url, "--requests", "24", "-o", "json")
    assert (status, err) == (0, "")
    report = json.loads(out)
    assert {"connect", "tls", "ttfb", "total", "cold", "prompt", "temperature"} <= set(report)
    assert report["cold"] >= 300 > report["total"] >= report["ttfb"] >= 2
    assert report["tls"] is None
    assert report["findings"][0]["spec"].keys() == {"warmup"}
    assert len(provider.observations.log) == report["requests"] <= 24
    assert KEY not in out
    assert "Reply with" not in out


async def test_a_report_for_people(loaded: Preloaded, provider: Provider) -> None:
    """What was measured, what can be gained with the field and the reason, what is not known."""
    status, out, err = await ended(loaded, provider.url.removesuffix("/v1"), "--requests", "30")
    assert (status, err) == (0, "")
    assert out.startswith(f"gpt-4o-mini at {provider.url}: ")
    assert "whole call, connection kept" in out
    assert "Backend warmup: {requests: 8" in out
    assert "1: The first call took" in out
    assert "not measured: TLS: the URL is http://" in out


async def test_ctrl_c_ends_with_what_was_measured(provider: Provider) -> None:
    """Status 0, and a report."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "control_plane", *words(provider.url, "--pause", "10m", "--requests", "12", "-o", "json")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "OPENAI_API_KEY": KEY},
    )
    async with asyncio.timeout(30):
        await provider.observations.until(lambda seen: len(seen.log) == 10)
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert json.loads(out)["total"] > 0


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"key": "sk-wrong-one"}, "refuses the key (401"),
        ({"key": ""}, "wants a key (401"),
        ({"model": "gpt-9"}, "has no model gpt-9 (404"),
    ],
    ids=["wrong key", "no key", "wrong model"],
)
async def test_refusals(loaded: Preloaded, provider: Provider, options: dict[str, str], part: str) -> None:
    """One sentence, status 1, no traceback, no key."""
    status, out, err = await ended(loaded, provider.url, **options)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert part in err
    assert "sk-" not in err


@pytest.mark.parametrize(
    ("behaviour", "part"),
    [
        (
            Behaviour(headers=(("content-type", "text/html"),), body="<html></html>", times=0),
            "answers text/html",
        ),
        (Behaviour(hang=True, times=0), "does not answer within 0.3 s"),
        (Behaviour(close="before-headers", times=0), "closes the connection"),
    ],
    ids=["a page", "silence", "no answer"],
)
async def test_strange_servers(
    loaded: Preloaded, provider: Provider, behaviour: Behaviour, part: str
) -> None:
    """One sentence that says what to check."""
    provider.script(behaviour)
    status, out, err = await ended(loaded, provider.url, "--timeout", "300ms")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert part in err


async def test_nobody_listens(loaded: Preloaded) -> None:
    """A closed port is said to be one."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        status, out, err = await ended(loaded, f"http://127.0.0.1:{closed.getsockname()[1]}/v1")
    assert (status, out) == (1, "")
    assert "nobody listens on 127.0.0.1" in err
