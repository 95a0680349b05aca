"""`outrigger provider` as a process: its line, its exit statuses, its end."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx
import pytest

from control_plane.tools.provider import ProviderSettings, running_provider
from tests.harness.preloaded import Preloaded, preloaded

# The command alone, so that this test needs no other command of `outrigger`.
PROGRAM = (
    "import typer; from control_plane.cli.provider import provider; "
    "app = typer.Typer(); app.command()(provider); app(prog_name='outrigger provider')"
)


@asynccontextmanager
async def started(*options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the command; it is killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        *options,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.fixture(scope="module")
def loaded() -> Iterator[Preloaded]:
    """The command with all that it needs."""
    with preloaded("control_plane.cli.provider", "control_plane.tools.provider") as running:
        yield running


async def ended(loaded: Preloaded, *options: str) -> tuple[int, str, str]:
    """Run the command to its end; return status, stdout and stderr."""
    done = await asyncio.to_thread(loaded.run, ["provider", *options])
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_serves_until_it_is_told_to_stop(number: signal.Signals) -> None:
    """It prints one line with its base URL, serves, and ends with status 0 on a signal."""
    async with asyncio.timeout(30), started("--port", "0", "--models", "m", "--answers", "echo") as process:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        assert line.startswith("Simulated provider on http://127.0.0.1:")
        url = line.split()[-1]
        async with httpx.AsyncClient(trust_env=False) as http:
            body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
            answer = (await http.post(f"{url}/chat/completions", json=body)).json()
        assert answer["choices"][0]["message"]["content"] == "hello"
        process.send_signal(number)
        out, err = await process.communicate()
        assert (process.returncode, out, err) == (0, b"", b"")


async def test_port_in_use(loaded: Preloaded) -> None:
    """A taken port is one sentence on stderr and status 1."""
    async with running_provider(ProviderSettings()) as provider:
        status, out, err = await ended(loaded, "--port", str(provider.port))
    assert (status, out) == (1, "")
    assert err.count("\n") == 1
    assert f"Port {provider.port} on 127.0.0.1 is in use" in err


@pytest.mark.parametrize(
    "options",
    [
        ("--error-rate", "2"),
        ("--no-such-option",),
        ("--tls-cert", "cert.pem"),
        ("--error-status", "200"),
        ("--base-path", "v1"),
    ],
)
async def test_wrong_usage(loaded: Preloaded, options: tuple[str, ...]) -> None:
    """Wrong options are said on stderr with status 2, without a traceback."""
    status, _, err = await ended(loaded, *options)
    assert status == 2
    assert "Traceback" not in err
    assert "Error" in err


async def test_help_has_an_example(loaded: Preloaded) -> None:
    """The help shows how it is used."""
    status, out, _ = await ended(loaded, "--help")
    assert status == 0
    assert "outrigger provider --port 8001" in out
