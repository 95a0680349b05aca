"""What batching gains where a provider takes few calls at once, and what it costs where nobody else asks."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from tests.bench.measure import Effort, Row
from tests.harness.mesh import OUTRIGGER, Mesh, http_status
from tests.harness.processes import free_ports, until
from tests.harness.raw_http import Connection, connect, json_request

PATH = "/v1/embeddings"
CALLERS = 64
# A provider that takes four calls at once and is 60 ms away.
PROVIDER = ("--rtt-ms", "60", "--prefill-ms-per-token", "0.01")
DOCUMENTS = """\
kind: Backend
metadata: {{name: simulated}}
spec:
  url: "http://127.0.0.1:{port}/v1"
  timeouts: {{request: 2m}}
  quota: {{concurrency: 4}}
---
kind: Model
metadata: {{name: text-embedding-3-small}}
spec: {{versions: [{{name: v1, backend: simulated}}]}}
---
kind: Model
metadata: {{name: batched}}
spec: {{versions: [{{name: v1, backend: simulated, upstreamModel: text-embedding-3-small}}]}}
---
kind: Policy
metadata: {{name: batched}}
spec: {{target: {{models: [batched]}}, batch: {{mode: native, maxSize: 50, splitAbove: 50, maxWait: 20ms}}}}
"""
MODELS = ("text-embedding-3-small", "batched")


def measure_batches(effort: Effort, folder: Path) -> list[Row]:
    """Return the rows: throughput and p99 with and without, and the idle cost."""
    requests = min(effort.requests // 10, 2_000)
    with _provider(folder) as port, Mesh(folder / "mesh", DOCUMENTS.format(port=port)) as mesh:
        runs = {model: asyncio.run(_load(mesh.proxy_port, model, requests)) for model in MODELS}
        idle = asyncio.run(_idle(mesh.proxy_port, 150))
    (plain_rps, plain_p99, plain), (rps, p99, own) = (runs[model] for model in MODELS)
    ratio, added = rps / plain_rps, (idle[1] - idle[0]) * 1000
    wrong = sum(plain[text] != vector for text, vector in own.items())
    return [
        Row(
            f"embeddings, {requests:,} at {CALLERS}, batched / not",
            "≥ 8 ×, p99 no higher, each its own",
            f"{ratio:.1f} × ({rps:,.0f} / {plain_rps:,.0f} rps), p99 {p99:.2f} / {plain_p99:.2f} s,"
            f" {wrong} wrong",
            ratio >= 8 and p99 <= plain_p99 and wrong == 0,
        ),
        Row("idle latency that batching adds, p50", "≤ 0.3 ms", f"{added:+.2f} ms", added <= 0.3),
    ]


@contextmanager
def _provider(folder: Path) -> Iterator[int]:
    (port,) = free_ports(1)
    with (folder / "provider.log").open("wb") as log:
        process = subprocess.Popen(
            [str(OUTRIGGER), "provider", "--port", str(port), *PROVIDER], stdout=log, stderr=log
        )
    try:
        until(lambda: http_status(f"http://127.0.0.1:{port}/v1/models") == 200, 20, "the provider listens")
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


async def _load(port: int, model: str, requests: int) -> tuple[float, float, dict[str, object]]:
    """Return requests a second, p99 in seconds, and everybody's vector."""
    texts = iter([f"text number {number}" for number in range(requests)])
    vectors: dict[str, object] = {}
    took: list[float] = []

    async def caller() -> None:
        async with await connect(port) as connection:
            for text in texts:
                began = time.perf_counter()
                vectors[text] = await _embed(connection, model, text)
                took.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return requests / (time.perf_counter() - began), _percentile(took, 0.99), vectors


async def _idle(port: int, rounds: int) -> Sequence[float]:
    """Return the p50 of calls that come alone, not batched and batched, in turns, in seconds."""
    took: dict[str, list[float]] = {model: [] for model in MODELS}
    async with await connect(port) as connection:
        for number in range(rounds):
            for model in MODELS:
                began = time.perf_counter()
                await _embed(connection, model, f"alone {number}")
                took[model].append(time.perf_counter() - began)
    return [median(took[model][10:]) for model in MODELS]


async def _embed(connection: Connection, model: str, text: str) -> object:
    await connection.send(json_request(PATH, {"model": model, "input": text, "dimensions": 64}))
    answer = await connection.receive()
    if answer.status != 200:
        raise RuntimeError(f"status {answer.status}")
    return answer.json()["data"][0]["embedding"]


def _percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]
