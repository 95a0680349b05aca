"""The row of the webhook: reviews at a pace, over TLS and connections that stay, the server on one core."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trustme

from tests.bench.measure import Effort, Row
from tests.harness.mesh import OUTRIGGER, http_status
from tests.harness.processes import cpu_seconds, free_ports, until
from tests.harness.raw_http import Connection, json_request

PACE: Final = 100
CALLERS: Final = 16
WARM_S: Final = 2.0
P99_S: Final = 0.020


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook that answers."""

    pid: int
    port: int
    trust: ssl.SSLContext


@contextmanager
def _webhook(folder: Path) -> Iterator[Webhook]:
    """Run a control plane with a webhook, on the last core where there are several."""
    authority = trustme.CA()
    served = authority.issue_cert("localhost")
    cert, key = folder / "tls.crt", folder / "tls.key"
    cert.write_bytes(b"".join(pem.bytes() for pem in served.cert_chain_pems))
    served.private_key_pem.write_to_path(str(key))
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    api, push, port = free_ports(3)
    command = [
        str(OUTRIGGER), "control-plane", "--api-port", str(api), "--push-port", str(push),
        "--webhook-port", str(port), "--webhook-cert", str(cert), "--webhook-key", str(key),
        "--data-dir", str(folder / "data"),
    ]  # fmt: skip
    with (folder / "webhook.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        until(lambda: http_status(f"http://127.0.0.1:{api}/healthz") == 200, 30, "the webhook answers")
        os.sched_setaffinity(process.pid, {max(os.sched_getaffinity(0))})
        yield Webhook(process.pid, port, trust)
    finally:
        process.terminate()
        process.wait(15)


def _review(number: int) -> bytes:
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": f"app-{number}-", "labels": {"app": "bench", "tier": "web"}},
        "spec": {
            "initContainers": [{"name": "migrate", "image": "app:1"}],
            "containers": [
                {
                    "name": "app",
                    "image": "app:1",
                    "env": [{"name": "A", "value": "1"}],
                    "ports": [{"containerPort": 80}],
                }
            ],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    }
    request = {
        "uid": f"bench-{number}",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "bench",
        "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
        "object": pod,
        "dryRun": False,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(review).encode()


async def _paced(webhook: Webhook, seconds: float) -> list[float]:
    """Ask evenly, and return how long each answer took, from when it was due."""
    loop = asyncio.get_running_loop()
    begun, total = loop.time() + 0.1, int(PACE * seconds)
    took: list[float] = []

    async def some(first: int) -> None:
        reader, writer = await asyncio.open_connection("localhost", webhook.port, ssl=webhook.trust)
        async with Connection(reader, writer) as connection:
            for number in range(first, total, CALLERS):
                due = begun + number / PACE
                await asyncio.sleep(max(0.0, due - loop.time()))
                await connection.send(json_request("/inject?timeout=5s", _review(number)))
                answer = await connection.receive()
                if number >= WARM_S * PACE:
                    took.append(loop.time() - due)
                if b'"patch"' not in answer.body:
                    raise RuntimeError(f"not injected: {answer.body[:300]!r}")

    await asyncio.gather(*(some(first) for first in range(CALLERS)))
    return took


def measure_webhook(effort: Effort, folder: Path) -> list[Row]:
    """Return the row."""
    with _webhook(folder) as webhook:
        before, began = cpu_seconds(webhook.pid), time.monotonic()
        took = sorted(asyncio.run(_paced(webhook, WARM_S + effort.seconds * 5)))
        each = (cpu_seconds(webhook.pid) - before) / ((time.monotonic() - began) * PACE)
    p50, p99 = took[len(took) // 2], took[int(len(took) * 0.99)]
    return [
        Row(
            f"injection, {PACE} reviews/s on one core, p99",
            f"≤ {P99_S * 1000:.0f} ms",
            f"{p99 * 1000:.1f} ms (p50 {p50 * 1000:.1f}); CPU {each * 1000:.1f} ms a review",
            p99 <= P99_S,
            {"p50_ms": p50 * 1000, "p99_ms": p99 * 1000, "cpu_ms": each * 1000},
        )
    ]
