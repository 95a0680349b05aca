"""The control plane's API under load: one process, 5,000 documents on SQLite, real HTTP.

`measure_api` gives the rows of the report; `python -m tests.bench.api` prints them alone.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from tests.bench.load import CONNECTIONS, LoadFailed, ensure_wrk
from tests.bench.measure import Effort, Row
from tests.harness.mesh import OUTRIGGER, http_status
from tests.harness.processes import cpu_seconds, free_ports, until

TOKEN = "the bench's admin token"
DOCUMENTS = 5_000
APPLIED = 500
START_SECONDS = 30

_SCRIPT = """
wrk.headers["authorization"] = "Bearer {token}"
function done(summary, latency, requests)
  io.write(string.format("%d %d %d\\n", summary.requests, summary.duration,
    summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout))
end
"""


@dataclass(frozen=True, slots=True)
class Api:
    """A running API. `pid` is the process whose CPU time is charged to it."""

    port: int
    pid: int

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def _running_api(folder: Path) -> Iterator[Api]:
    """Run a control plane of its own in `folder`."""
    (port,) = free_ports(1)
    command = [
        str(OUTRIGGER), "control-plane", "--api-port", str(port), "--data-dir", str(folder / "data"),
        "--push-address", f"unix:{folder / 'push.sock'}",
    ]  # fmt: skip
    environment = {**os.environ, "OUTRIGGER_ADMIN_TOKEN": TOKEN}
    with (folder / "api.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
    try:
        until(
            lambda: http_status(f"http://127.0.0.1:{port}/healthz") == 200, START_SECONDS, "the API answers"
        )
        yield Api(port, process.pid)
    finally:
        process.terminate()
        process.wait(15)


def measure_api(effort: Effort, folder: Path) -> list[Row]:
    """Fill the registry of an API, then measure changes, single reads and whole lists."""
    with _running_api(folder) as api:
        return _measured(api, effort, folder)


def _measured(api: Api, effort: Effort, folder: Path) -> list[Row]:
    with httpx.Client(base_url=api.url, headers={"authorization": f"Bearer {TOKEN}"}, timeout=60) as client:
        fill(client)
        applied = [timed(partial(apply, client, documents(0, APPLIED, round_))) for round_ in range(1, 4)]
    seconds = min(applied)
    per_second, cpu_per_request = single_reads(api, effort, folder)
    a_core = 1 / cpu_per_request
    lists = asyncio.run(list_times(api, max(50, effort.calls // 4)))
    p99 = sorted(lists)[math.ceil(len(lists) * 0.99) - 1] * 1000
    return [
        Row(f"apply of {APPLIED} documents among {DOCUMENTS}", "≤ 3 s", f"{seconds:.2f} s", seconds <= 3),
        Row(
            "API: GET of one document, a core",
            "≥ 300 a second",
            f"{a_core:.0f} a second ({per_second:.0f} with the load beside it)",
            a_core >= 300,
            {"per_core": a_core, "per_second": per_second},
        ),
        Row(
            f"API: GET of {DOCUMENTS - 1} documents, p99",
            "≤ 100 ms",
            f"{p99:.1f} ms",
            p99 <= 100,
            {"p99_ms": p99, "p50_ms": sorted(lists)[len(lists) // 2] * 1000},
        ),
    ]


def documents(first: int, count: int, round_: int = 0) -> list[dict[str, Any]]:
    """Return Models that differ by `round_` only, and their Backend with the first of them."""
    found: list[dict[str, Any]] = []
    if first == 0:
        found.append({"kind": "Backend", "metadata": {"name": "b"}, "spec": {"url": "http://127.0.0.1:1/v1"}})
        count -= 1
    for number in range(first, first + count):
        version = {"name": "stable", "backend": "b", "upstreamModel": f"upstream-{number}-{round_}"}
        found.append(
            {
                "apiVersion": "outrigger.dev/v1alpha1",
                "kind": "Model",
                "metadata": {"name": f"model-{number:05}"},
                "spec": {"aliases": [f"alias-{number}"], "versions": [version]},
            }
        )
    return found


def fill(client: httpx.Client) -> None:
    """Apply all documents, in parts."""
    whole = documents(0, DOCUMENTS)
    for start in range(0, DOCUMENTS, APPLIED):
        apply(client, whole[start : start + APPLIED])


def apply(client: httpx.Client, found: Sequence[dict[str, Any]]) -> None:
    """Apply documents.

    Raises:
        LoadFailed: they were not taken.
    """
    answer = client.post(
        "/api/v1/apply", content=json.dumps(found), headers={"content-type": "application/json"}
    )
    if answer.status_code != 200:
        raise LoadFailed(f"apply was answered {answer.status_code}: {answer.text[:500]}")


def timed(call: Any) -> float:
    """Return how many seconds `call` takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def single_reads(api: Api, effort: Effort, folder: Path) -> tuple[float, float]:
    """Return requests a second and the API's CPU seconds a request.

    Raises:
        LoadFailed: wrk could not run, or a request was not answered with 2xx.
    """
    script = folder / "get.lua"
    script.write_text(_SCRIPT.format(token=TOKEN), encoding="utf-8")
    url = f"{api.url}/api/v1/models/model-00007"
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{math.ceil(effort.seconds)}s", "-s", str(script), url]
    before = cpu_seconds(api.pid)
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    used = cpu_seconds(api.pid) - before
    found = re.search(r"^(\d+) (\d+) (\d+)$", run.stdout, re.MULTILINE)
    if run.returncode or not found or int(found[3]):
        raise LoadFailed(f"wrk failed on {url}: {run.stdout}{run.stderr}")
    requests = int(found[1])
    return requests / (int(found[2]) / 1e6), used / requests


async def list_times(api: Api, count: int) -> list[float]:
    """Return the seconds of `count` whole lists, one after the other on one connection.

    Raises:
        LoadFailed: an answer was not the whole list.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port, limit=1 << 20)
    request = f"GET /api/v1/models HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {TOKEN}\r\n\r\n".encode()
    times = []
    try:
        for _ in range(count):
            began = time.perf_counter()
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            found = re.search(rb"content-length: (\d+)", head)
            if b" 200 " not in head.split(b"\r\n", 1)[0] or found is None:
                raise LoadFailed(f"the list was answered {head[:200]!r}")
            body = await reader.readexactly(int(found[1]))
            times.append(time.perf_counter() - began)
        if len(json.loads(body)["items"]) != DOCUMENTS - 1:
            raise LoadFailed("the list is not whole")
    finally:
        writer.close()
    return times


def main() -> int:
    """Print the rows. The exit status is 1 when a promise is not kept."""
    ensure_wrk()
    effort = Effort.quick() if "--quick" in sys.argv else Effort.full()
    with tempfile.TemporaryDirectory(prefix="ob-") as name:
        rows = measure_api(effort, Path(name))
    for row in rows:
        print(f"{row.name:55} {row.target:18} {row.measured}")
    return 1 if any(row.passed is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
