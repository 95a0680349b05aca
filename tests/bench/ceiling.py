"""What one sidecar does at its limits: cold start, tail, large bodies, 10,000 streams, workers, changes."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import httpx

from tests.bench import envoys
from tests.bench.fleet import raise_file_limit
from tests.bench.load import CONNECTIONS, LoadFailed, chat_body, time_calls, wrk
from tests.bench.measure import MIB, Effort, Row
from tests.bench.sizing import ROLES
from tests.harness.mesh import OUTRIGGER, Mesh
from tests.harness.processes import cpu_seconds, free_ports, rss_bytes, until
from tests.harness.raw_http import connect, json_request

PATH: Final = "/v1/chat/completions"
PACE: Final = 1000
PACE_EACH: Final = 150
SENDERS: Final = 64
SIZES: Final = (1024, 16 * 1024, 256 * 1024, MIB, 8 * MIB, 32 * MIB - 1024)
STREAMS: Final = 10_000
SILENT_S: Final = 3600
OPENED_AT_ONCE: Final = 200
FILES: Final = STREAMS + 1_000
TAIL_MS: Final = 3.0
COLD_S: Final = 2.0
JSON: Final = {"content-type": "application/json"}
PROCESSOR_BYTES: Final = 120 * MIB
ENVOY_BYTES: Final = 80 * MIB
WORKERS: Final = 4
SCALED: Final = 3.5
BACKENDS: Final = 30
MODELS: Final = 300
POLICIES: Final = 8
CHANGES: Final = 5
CHANGED_S: Final = 1.0
TOKEN: Final = "the-token-of-the-bench"
YAML: Final = {"content-type": "application/yaml"}

_BACKEND: Final = """\
kind: Backend
metadata: {{name: direct}}
spec:
  url: "http://127.0.0.1:{port}/v1"
  default: true
  http: "{http}"
  timeouts: {{request: 900s, streamIdle: 900s}}
---
kind: Model
metadata: {{name: bench}}
spec: {{versions: [{{name: v1, backend: direct}}]}}
"""

_MODEL: Final = """\
kind: Model
metadata: {{name: {}}}
spec: {{versions: [{{name: v1, backend: b{}}}]}}
"""
_POLICY: Final = """\
kind: Policy
metadata: {{name: p{0}}}
spec: {{target: {{models: ["m{0}*"]}}, retry: {{attempts: {1}}}}}
"""


def measure_ceiling(effort: Effort, folder: Path) -> list[Row]:
    """Return all rows. Each has a mesh of its own, as each disturbs the next."""
    return [
        *_cold_start(effort, folder / "cold"),
        _tail(effort, folder / "tail"),
        *_sizes(effort, folder / "sizes"),
        _streams(folder / "streams"),
        *_workers(effort, folder / "workers"),
        _change(folder / "change"),
    ]


@contextmanager
def _mesh(folder: Path, options: Sequence[str] = (), *, silent: bool = False) -> Iterator[Mesh]:
    """Run a mesh before an upstream that answers at once, or (over HTTP/2) not within the hour."""
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        port = stack.enter_context(envoys.running_upstream(folder, SILENT_S if silent else 0))
        documents = _BACKEND.format(port=port, http="2" if silent else "1.1")
        yield stack.enter_context(Mesh(folder / "mesh", documents, options))


def _pids(mesh: Mesh) -> dict[str, list[int]]:
    children = mesh.children()
    return {role: [child.pid for child in children if child.role == role] for role in ROLES}


def _cold_start(effort: Effort, folder: Path) -> list[Row]:
    """Measure from the command to the first decided answer: of a sidecar by itself, and of a whole mesh."""
    whole, alone = [], []
    for number in range(max(3, effort.rounds)):
        own = folder / str(number)
        own.mkdir(parents=True)
        with ExitStack() as stack:
            port = stack.enter_context(envoys.running_upstream(own))
            mesh = Mesh(own / "mesh", _BACKEND.format(port=port, http="1.1"))
            began = time.monotonic()
            with mesh:
                asyncio.run(time_calls(mesh.proxy_port, chat_body("bench"), 1))
                whole.append(time.monotonic() - began)
            alone.append(_sidecar_start(mesh.data_dir, own / "sidecar.log"))
    return [
        _started("cold start of a sidecar to its first answer", f"≤ {COLD_S:g} s", alone),
        _started("cold start of a mesh with its control plane", "", whole),
    ]


def _started(name: str, promised: str, took: Sequence[float]) -> Row:
    median = sorted(took)[len(took) // 2]
    return Row(name, promised, f"{median:.2f} s", median <= COLD_S if promised else None, {"s": median})


def _sidecar_start(data_dir: Path, log_path: Path) -> float:
    """Start a sidecar with the policy that a mesh has left; return the seconds to its first answer."""
    proxy, metrics, admin, nobody = free_ports(4)
    ports = ("--proxy-port", str(proxy), "--metrics-port", str(metrics), "--envoy-admin-port", str(admin))
    command = [str(OUTRIGGER), "sidecar", "--control-plane", f"127.0.0.1:{nobody}", *ports]
    with log_path.open("wb") as log:
        began = time.monotonic()
        sidecar = subprocess.Popen([*command, "--data-dir", str(data_dir)], stdout=log, stderr=log)
    try:
        until(lambda: _is_decided(proxy), 30, "the sidecar decides", 0.01)
        return time.monotonic() - began
    finally:
        sidecar.terminate()
        sidecar.wait(20)


def _is_decided(port: int) -> bool:
    try:
        answer = httpx.post(
            f"http://127.0.0.1:{port}{PATH}", content=chat_body("bench"), headers=JSON, timeout=5
        )
    except httpx.HTTPError:
        return False
    return bool(answer.headers.get("x-outrigger-model") == "bench")


def _tail(effort: Effort, folder: Path) -> Row:
    """Measure the latency of calls that come evenly, each counted from when it is sent."""
    with _mesh(folder) as mesh:
        asyncio.run(_evenly(mesh.proxy_port, PACE, 1.0))
        times = sorted(asyncio.run(_evenly(mesh.proxy_port, PACE, effort.seconds * 2)))
    half, most = times[len(times) // 2] * 1e3, times[int(len(times) * 0.99)] * 1e3
    return Row(
        f"p99 at {PACE:,} requests/s",
        f"≤ {TAIL_MS:g} ms",
        f"{most:.2f} ms (p50 {half:.2f}; {len(times):,} calls)",
        most <= TAIL_MS,
        {"p50_ms": half, "p99_ms": most},
    )


async def _evenly(port: int, pace: int, seconds: float) -> list[float]:
    body = json_request(PATH, chat_body("bench"))
    loop = asyncio.get_running_loop()
    begun, total = loop.time() + 0.1, int(pace * seconds)
    times: list[float] = []

    async def every(first: int) -> None:
        async with await connect(port) as connection:
            for number in range(first, total, SENDERS):
                due = begun + number / pace
                await asyncio.sleep(max(0.0, due - loop.time()))
                # The client's own lateness is not the mesh's: it runs on the same two cores.
                sent = loop.time()
                await connection.send(body)
                answer = await connection.receive()
                times.append(loop.time() - sent)
                if answer.status != 200:
                    raise RuntimeError(f"{answer.status} {answer.body[:200]!r}")

    await asyncio.gather(*(every(first) for first in range(SENDERS)))
    return times


def _sizes(effort: Effort, folder: Path) -> list[Row]:
    """Measure what a request's body costs each process, by its size."""
    rows = []
    with _mesh(folder) as mesh:
        pids = _pids(mesh)
        for size in SIZES:
            body = chat_body("bench", size)
            calls = max(5, min(effort.calls, 64 * MIB // size))
            asyncio.run(time_calls(mesh.proxy_port, body, 3))
            before = _cpu(pids)
            timings = asyncio.run(time_calls(mesh.proxy_port, body, calls))
            if any(timing.status != 200 for timing in timings):
                raise RuntimeError(f"a body of {size} bytes is not passed on")
            spent = {role: (now - before[role]) / calls for role, now in _cpu(pids).items()}
            each = sorted(timing.total_ms for timing in timings)[calls // 2]
            share = size / MIB
            told = " + ".join(f"{role} {spent[role] * 1e3 / share:.2f}" for role in ROLES)
            name = f"{size // 1024} KiB" if size < MIB else f"{round(size / MIB)} MiB"
            rows.append(
                Row(
                    f"a body of {name}",
                    "",
                    f"p50 {each:.2f} ms; CPU ms a MiB: {told}",
                    None,
                    {"p50_ms": each, **{f"{role}_ms": spent[role] * 1e3 for role in ROLES}},
                )
            )
    return rows


def _streams(folder: Path) -> Row:
    """Measure what ten thousand calls weigh whose providers say nothing."""
    raise_file_limit(FILES)
    with _mesh(folder, silent=True) as mesh:
        pids = _pids(mesh)
        asyncio.run(_wait_for_nothing(mesh.proxy_port, 50))
        weights: dict[str, int] = {}

        def weigh() -> None:
            active = mesh.envoy_stats(r"cluster\.direct\..*upstream_rq_active")
            if sum(active.values()) != STREAMS:
                raise LoadFailed(f"of {STREAMS} streams {active} are open")
            weights.update(_rss(pids))

        asyncio.run(_wait_for_nothing(mesh.proxy_port, STREAMS, weigh))
    processor, envoy = weights["processor"], weights["envoy"]
    return Row(
        f"{STREAMS:,} silent streams",
        f"processor ≤ {PROCESSOR_BYTES // MIB} MB, Envoy ≤ {ENVOY_BYTES // MIB} MB",
        f"processor {processor / MIB:.0f} MB, Envoy {envoy / MIB:.0f} MB "
        f"({envoy / STREAMS / 1024:.1f} KiB a stream), agent {weights['agent'] / MIB:.0f} MB",
        processor <= PROCESSOR_BYTES and envoy <= ENVOY_BYTES,
        {role: float(weight) for role, weight in weights.items()},
    )


async def _wait_for_nothing(port: int, streams: int, when_open: Callable[[], None] = lambda: None) -> None:
    """Open so many streams, none of which is answered; call `when_open` once all are upstream, and leave."""
    body = json_request(PATH, chat_body("bench")[:-1] + b', "stream": true}')
    writers = []
    try:
        for first in range(0, streams, OPENED_AT_ONCE):
            count = min(OPENED_AT_ONCE, streams - first)
            opened = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", port) for _ in range(count)))
            for _, writer in opened:
                writer.write(body)
                writers.append(writer)
            await asyncio.sleep(0.3)
        await asyncio.sleep(3)
        when_open()
    finally:
        for writer in writers:
            writer.close()


def _workers(effort: Effort, folder: Path) -> list[Row]:
    """Measure a call's CPU in one processor and in four: what four cores would carry follows from it.

    A call costs less the more of them a processor finds waiting when it wakes. So each is given as many a
    second first; then all that this machine can carry, which keeps one busy but not four.
    """
    evenly: dict[int, float] = {}
    busy: dict[int, float] = {}
    for count in (1, WORKERS):
        with _mesh(folder / str(count), ("--workers", str(count))) as mesh:
            pids, pace = _pids(mesh), PACE_EACH * count
            asyncio.run(_evenly(mesh.proxy_port, pace, 1.0))
            before = _cpu(pids)["processor"]
            calls = asyncio.run(_evenly(mesh.proxy_port, pace, effort.seconds * 4))
            evenly[count] = (_cpu(pids)["processor"] - before) / len(calls)
            url = f"{mesh.url}/chat/completions"
            before = _cpu(pids)["processor"]
            load = wrk(url, chat_body("bench"), effort.seconds * 2, folder, connections=CONNECTIONS * count)
            if load.errors:
                raise LoadFailed(f"{load.errors} calls failed")
            busy[count] = (_cpu(pids)["processor"] - before) / load.requests
    return [
        _scaled(
            busy, f"{WORKERS} processors on paper, as many requests/s as there can be", f"≥ {SCALED:g} x one"
        ),
        _scaled(evenly, f"{WORKERS} processors on paper, {PACE_EACH} requests/s each", ""),
    ]


def _scaled(spent: Mapping[int, float], name: str, promised: str) -> Row:
    """Return how many times what one carries four carry, by the CPU of a call."""
    scaled = WORKERS * spent[1] / spent[WORKERS]
    told = f"CPU a call: {spent[1] * 1e6:.0f} µs with one, {spent[WORKERS] * 1e6:.0f} µs with {WORKERS}"
    passed = scaled >= SCALED if promised else None
    return Row(name, promised, f"{scaled:.2f} x ({told})", passed, {"times": scaled})


def _change(folder: Path) -> Row:
    """Measure how long one more Model takes to be in force beside many, and what it costs the agent."""
    folder.mkdir(parents=True)
    one = "kind: Backend\nmetadata: {{name: b{0}}}\nspec: {{url: 'http://127.0.0.1:{1}/v1'}}\n"
    documents = [one.format(number, 5000 + number) for number in range(BACKENDS)]
    documents += [_MODEL.format(f"m{number}", number % BACKENDS) for number in range(MODELS)]
    documents += [_POLICY.format(number, number + 1) for number in range(POLICIES)]
    took, spent = [], []
    with Mesh(folder / "mesh", "---\n".join(documents), ("--admin-token", TOKEN)) as mesh:
        pids = _pids(mesh)
        api = httpx.Client(
            base_url=f"http://127.0.0.1:{mesh.api_port}/api/v1", headers={"authorization": f"Bearer {TOKEN}"}
        )
        for number in range(CHANGES):
            before, began = _cpu(pids)["agent"], time.monotonic()
            answer = api.post("/apply", content=_MODEL.format(f"x{number}", 0), headers=YAML)
            answer.raise_for_status()
            until(lambda: api.get("/sidecars").json()["items"][0]["inForce"], 60, "the change is in force")
            took.append(time.monotonic() - began)
            time.sleep(1)  # what it no longer needs is taken away then
            spent.append(_cpu(pids)["agent"] - before)
    median = sorted(took)[CHANGES // 2]
    return Row(
        f"one more Model among {MODELS}, with {BACKENDS} Backends and {POLICIES} Policies",
        f"≤ {CHANGED_S:g} s",
        f"in force after {median:.2f} s; {sorted(spent)[CHANGES // 2]:.2f} s of the agent's CPU",
        median <= CHANGED_S,
        {"s": median},
    )


def _cpu(pids: Mapping[str, Sequence[int]]) -> dict[str, float]:
    return {role: sum(map(cpu_seconds, of)) for role, of in pids.items()}


def _rss(pids: Mapping[str, Sequence[int]]) -> dict[str, int]:
    return {role: sum(map(rss_bytes, of)) for role, of in pids.items()}
