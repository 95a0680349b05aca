"""Providers that are kept warm, and those that are not."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.mesh import OUTRIGGER, Mesh, http_status
from tests.harness.processes import free_ports, until
from tests.harness.raw_http import post

COLD_S = 0.8
MESH = """\
kind: Backend
metadata: {{name: warm}}
spec:
  url: "http://127.0.0.1:{warm}/v1"
  default: true
  warmup: {{requests: 3, prompt: Hi, idleAfter: 2s}}
---
kind: Backend
metadata: {{name: cold}}
spec: {{url: "http://127.0.0.1:{cold}/v1"}}
---
kind: Model
metadata: {{name: warm}}
spec: {{versions: [{{name: v, backend: warm}}], limits: {{requestsPerMinute: 1}}}}
---
kind: Model
metadata: {{name: cold}}
spec: {{versions: [{{name: v, backend: cold}}]}}
"""


@contextmanager
def provider(folder: Path, idle_after_s: float) -> Iterator[int]:
    """Start a simulated provider that is slow when it was idle; yield its port."""
    port = free_ports(1)[0]
    options = ("--cold-start-ms", str(COLD_S * 1000), "--idle-after-s", str(idle_after_s))
    with (folder / f"{port}.log").open("wb") as log:
        process = subprocess.Popen(
            [str(OUTRIGGER), "provider", "--port", str(port), *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        until(lambda: http_status(f"http://127.0.0.1:{port}/v1/models") == 200, 20, "the provider listens")
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


@pytest.fixture(scope="module")
def warmed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """A mesh of two such providers, of which one is kept warm."""
    folder = tmp_path_factory.mktemp("warm")
    with (
        provider(folder, 60) as warm,
        provider(folder, 60) as cold,
        Mesh(tmp_path_factory.mktemp("warmed"), MESH.format(warm=warm, cold=cold)) as mesh,
    ):
        yield mesh


def warmups(mesh: Mesh, outcome: str = "ok") -> int:
    """Return how many calls woke providers."""
    pattern = rf'^outrigger_warmup_requests_total\{{outcome="{outcome}"\}} (\d+)'
    found = re.search(pattern, mesh.metrics(), re.MULTILINE)
    return int(found[1]) if found else 0


async def seconds_of(mesh: Mesh, model: str) -> float:
    """Return what a call takes."""
    began = time.monotonic()
    document = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    answer = await post(mesh.proxy_port, document, {"authorization": "Bearer sk-any"})
    assert answer.status == 200
    return time.monotonic() - began


async def test_the_first_call_finds_it_warm(warmed: Mesh) -> None:
    """Where it is asked for; nobody's limit has been charged with it, and no call of a caller is counted."""
    until(lambda: warmups(warmed) >= 3, 10, "the provider is woken")
    assert not re.search(r"^openai_request_total\{.*\} [1-9]", warmed.metrics(), re.MULTILINE)
    assert await seconds_of(warmed, "cold") > COLD_S
    assert await seconds_of(warmed, "warm") < COLD_S / 2


def test_after_a_pause_it_is_woken_again(warmed: Mesh) -> None:
    """Three calls each time."""
    before = warmups(warmed)
    until(lambda: warmups(warmed) >= before + 3, 10, "the provider is woken again")
    assert warmups(warmed, "failed") == 0
    assert "outrigger_cold_starts_total 0" in warmed.metrics()
    assert "Traceback" not in warmed.log()
