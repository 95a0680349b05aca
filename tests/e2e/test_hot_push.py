"""Changes of policy, one after the other, while two hundred streams run.

Sixty changes by default; OUTRIGGER_HOT_CHANGES says another number.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial

import httpx
import pytest

from tests.e2e.governed import ADMIN, BACKEND, HELLO, Governed, in_force, model
from tests.harness.mesh import OUTRIGGER, Mesh
from tests.harness.processes import eventually, free_ports, until
from tests.harness.raw_http import connect, json_request

CHANGES = int(os.environ.get("OUTRIGGER_HOT_CHANGES", "60"))
STREAMS = 200


def step(number: int) -> list[str]:
    """Return the documents of change `number`: its number shows in version, Backend, model and length."""
    return [
        model("hot", f"v{number}", backend=f"b{number % 2}"),
        "kind: Policy\nmetadata: {name: length}\n"
        f"spec: {{parameters: {{maxTokens: {{max: {length(number)}, default: {length(number)}}}}}}}\n",
    ]


def length(number: int) -> int:
    """Return how many tokens an answer under change `number` has."""
    return 3 + number % 5


@pytest.fixture
def two_providers() -> Iterator[tuple[int, int]]:
    """Two slow providers."""
    ports = free_ports(2)
    options = ("--decode-ms-per-token", "400", "--output-tokens", "200", "--log-size", "0")
    running = [
        subprocess.Popen(
            [str(OUTRIGGER), "provider", "--port", str(port), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        for port in ports
    ]
    for port in ports:
        until(partial(_answers, port), 20, "a provider listens")
    yield ports[0], ports[1]
    for process in running:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/v1/models").status_code == 200
    except httpx.HTTPError:
        return False


async def follow(port: int, over: asyncio.Event, faults: list[str]) -> int:
    """Take one stream after the other until `over`; return how many, and note each that is not whole."""
    body = {"model": "hot", "stream": True, "stream_options": {"include_usage": True}, **HELLO}
    request = json_request("/v1/chat/completions", body)
    count = 0
    async with await connect(port) as connection:
        while not over.is_set():
            await connection.send(request)
            answer = await connection.receive()
            count += 1
            events = [line[6:] for line in answer.body.split(b"\n") if line.startswith(b"data: ")]
            if answer.status != 200 or not events or events[-1] != b"[DONE]":
                faults.append(f"broken: {answer.status} {answer.headers} {events[-1:]}")
                continue
            headers = dict(answer.headers)
            version = headers["x-outrigger-version"]
            number = int(version[1:])
            chunks = [json.loads(event) for event in events[:-1]]
            produced = next(chunk["usage"]["completion_tokens"] for chunk in chunks if chunk.get("usage"))
            decided = (headers["x-outrigger-backend"], {chunk["model"] for chunk in chunks}, produced)
            if decided != (f"b{number % 2}", {version}, length(number)):
                faults.append(f"half of one and half of another: {version} {decided}")
    return count


@pytest.mark.timeout(300)
async def test_changes_under_two_hundred_streams(
    start_mesh: Callable[..., Mesh], two_providers: tuple[int, int]
) -> None:
    """No stream breaks, no request is without an answer, none is decided half by the old, half by the new."""
    backends = [
        BACKEND.format(name=f"b{number}", port=port, default="true" if number == 0 else "false")
        for number, port in enumerate(two_providers)
    ]
    mesh = start_mesh("---\n".join([*backends, *step(0)]), options=("--admin-token", ADMIN))
    governed = Governed(mesh)
    over, faults, took = asyncio.Event(), list[str](), list[float]()
    streams = [asyncio.create_task(follow(mesh.proxy_port, over, faults)) for _ in range(STREAMS)]
    await asyncio.sleep(2)  # all of them are under way
    for number in range(1, CHANGES + 1):
        began = time.monotonic()
        await asyncio.to_thread(governed.apply, *step(number))
        await eventually(partial(asyncio.to_thread, in_force, governed), 10, f"change {number} is in force")
        took.append(time.monotonic() - began)
    over.set()
    counts = await asyncio.gather(*streams)
    took.sort()
    print(f"{sum(counts)} streams; in force after {took[len(took) // 2]:.3f} s, at most {took[-1]:.3f} s")
    assert faults == []
    assert sum(counts) > STREAMS
    assert took[int(0.9 * len(took))] < 1.0
