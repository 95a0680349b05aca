"""What one pod takes, and what each policy costs: CPU and memory of a sidecar's processes, Redis's share.

A mesh with Redis before the upstream that answers by itself. Calls come at a pace, and as fast as they go;
of the policies each has a Model of its own, and each call a question of its own, where one could be shared.
"""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench import envoys
from tests.bench.load import chat_body, wrk
from tests.bench.measure import MIB, Effort, Row
from tests.harness.mesh import Mesh
from tests.harness.processes import cpu_seconds, rss_bytes
from tests.harness.raw_http import connect, json_request
from tests.harness.redis import RedisMissingError, RedisServer, redis_server

PACES: Final = (0, 10, 100)
ROLES: Final = ("envoy", "processor", "agent")
AT_ONCE: Final = 8
IDLE_CORES: Final = 0.02
IDLE_BYTES: Final = 150 * MIB
PATH: Final = "/v1/chat/completions"
_BACKEND = """\
kind: Backend
metadata: {{name: upstream}}
spec: {{url: "http://127.0.0.1:{port}/v1", default: true}}
---
kind: Tier
metadata: {{name: gold}}
spec:
  match: {{header: {{x-outrigger-tier: gold}}}}
  limits: {{requestsPerMinute: 10000000, tokensPerMinute: 1000000000}}
---
kind: Model
metadata: {{name: bench}}
spec: {{versions: [{{name: v1, backend: upstream}}]}}
"""
_WITH_POLICY = """\
---
kind: Model
metadata: {{name: {name}}}
spec: {{versions: [{{name: v1, backend: upstream}}]}}
---
kind: Policy
metadata: {{name: {name}}}
spec: {{target: {{models: [{name}]}}, {policy}}}
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One policy under load: its fields, the headers of its calls, and whether each question is new."""

    name: str
    policy: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    fresh: bool = False


CASES: Final = (
    Case("nothing shared"),
    Case("limits of a Tier", headers=(("x-outrigger-tier", "gold"),)),
    Case("cache, stored", "cache: {enabled: true, tiers: [memory, redis]}", fresh=True),
    Case("cache, a hit from Redis", "cache: {enabled: true, tiers: [redis]}"),
    Case("coalescing, each alone", "coalesce: {enabled: true}", fresh=True),
    Case("sessions", "session: {enabled: true, turns: 2}", headers=(("x-outrigger-session", "one"),)),
)


def measure_sizing(effort: Effort, folder: Path) -> list[Row]:
    """Return the rows of a pod at each pace, and of each policy."""
    with ExitStack() as stack:
        try:
            redis = stack.enter_context(redis_server(folder))
        except RedisMissingError as missing:
            return [Row("sizing", "", f"not measured: {missing}", None)]
        port = stack.enter_context(envoys.running_upstream(folder))
        documents = _BACKEND.format(port=port) + "".join(
            _WITH_POLICY.format(name=_model(number), policy=case.policy)
            for number, case in enumerate(CASES)
            if case.policy
        )
        mesh = stack.enter_context(Mesh(folder / "mesh", documents, ("--redis", redis.url)))
        pids = {child.role: child.pid for child in mesh.children() if child.role in ROLES}
        rows = [_paced(mesh, pids, pace, effort.seconds) for pace in PACES]
        rows.append(_at_full_speed(mesh, pids, effort, folder))
        rows += [
            _policy(mesh, pids, redis, (case, number), effort.calls * 4) for number, case in enumerate(CASES)
        ]
        return rows


def _model(number: int) -> str:
    return f"case-{number}" if CASES[number].policy else "bench"


def _spent(pids: dict[str, int]) -> dict[str, float]:
    return {role: cpu_seconds(pid) for role, pid in pids.items()}


def _paced(mesh: Mesh, pids: dict[str, int], pace: int, seconds: float) -> Row:
    """Measure with `pace` calls a second, spread evenly."""
    asyncio.run(_calls_at(mesh.proxy_port, max(pace, 1), 1))
    before, began = _spent(pids), time.monotonic()
    if pace:
        asyncio.run(_calls_at(mesh.proxy_port, pace, seconds * 2))
    else:
        time.sleep(seconds * 2)
    took = time.monotonic() - began
    cores = {role: (spent - before[role]) / took for role, spent in _spent(pids).items()}
    memory = {role: rss_bytes(pid) for role, pid in pids.items()}
    told = " + ".join(f"{role} {cores[role]:.3f}" for role in ROLES)
    held = " + ".join(f"{role} {memory[role] / MIB:.0f}" for role in ROLES)
    idle = pace == 0
    return Row(
        "a pod, idle" if idle else f"a pod at {pace} requests/s",
        f"≤ {IDLE_CORES} core, ≤ {IDLE_BYTES // MIB} MB" if idle else "",
        f"{sum(cores.values()):.3f} core ({told}), {sum(memory.values()) / MIB:.0f} MB ({held})",
        sum(cores.values()) <= IDLE_CORES and sum(memory.values()) <= IDLE_BYTES if idle else None,
        {"cores": sum(cores.values()), "bytes": float(sum(memory.values()))},
    )


async def _calls_at(port: int, pace: int, seconds: float) -> None:
    """Call evenly, over a few connections that wait for each other's turn."""
    body = json_request(PATH, chat_body("bench"))
    loop = asyncio.get_running_loop()
    begun, total = loop.time(), int(pace * seconds)

    async def every(first: int) -> None:
        async with await connect(port) as connection:
            for number in range(first, total, AT_ONCE):
                await asyncio.sleep(max(0.0, begun + number / pace - loop.time()))
                await connection.send(body)
                await connection.receive()

    await asyncio.gather(*(every(first) for first in range(AT_ONCE)))


def _at_full_speed(mesh: Mesh, pids: dict[str, int], effort: Effort, folder: Path) -> Row:
    """Measure as many calls as there can be; what a thousand a second would take follows from it."""
    before = _spent(pids)
    load = wrk(f"{mesh.url}/chat/completions", chat_body("bench"), effort.seconds * 2, folder)
    each = {role: (spent - before[role]) / load.requests for role, spent in _spent(pids).items()}
    memory = {role: rss_bytes(pid) for role, pid in pids.items()}
    told = " + ".join(f"{role} {each[role] * 1e6:.0f}" for role in ROLES)
    return Row(
        "a pod at 1,000 requests/s, from each call's CPU",
        "",
        f"{sum(each.values()) * 1000:.2f} cores ({told} µs a call at {load.per_second:,.0f}/s), "
        f"{sum(memory.values()) / MIB:.0f} MB",
        None,
        {"cores": sum(each.values()) * 1000, "bytes": float(sum(memory.values()))},
    )


def _policy(
    mesh: Mesh, pids: dict[str, int], redis: RedisServer, numbered: tuple[Case, int], calls: int
) -> Row:
    """Measure what a call under one policy costs each process, and Redis."""
    case, _ = numbered
    asyncio.run(_calls_of(mesh.proxy_port, numbered, 20, "first"))
    time.sleep(0.5)
    before, commands, cpu = _spent(pids), *_redis_spent(redis)
    asyncio.run(_calls_of(mesh.proxy_port, numbered, calls, "then"))
    time.sleep(0.5)
    spent = {role: (now - before[role]) / calls * 1e6 for role, now in _spent(pids).items()}
    commands_after, cpu_after = _redis_spent(redis)
    asked, took = (commands_after - commands) / calls, (cpu_after - cpu) / calls * 1e6
    told = " + ".join(f"{role} {spent[role]:.0f}" for role in ROLES)
    return Row(
        f"a call with {case.name}, on a connection of 8",
        "",
        f"{told} µs; Redis {took:.0f} µs, {asked:.1f} commands",
        None,
        {"redis_us": took, "redis_commands": asked, **{f"{role}_us": spent[role] for role in ROLES}},
    )


async def _calls_of(port: int, numbered: tuple[Case, int], calls: int, label: str) -> None:
    case, number = numbered

    async def some(first: int) -> None:
        async with await connect(port) as connection:
            for index in range(first, calls, AT_ONCE):
                text = f"{label} {index}" if case.fresh else "the same"
                document = {"model": _model(number), "messages": [{"role": "user", "content": text}]}
                headers = [
                    (name, f"{value}-{first}" if "session" in name else value) for name, value in case.headers
                ]
                await connection.send(json_request(PATH, document, headers))
                answer = await connection.receive()
                if answer.status != 200:
                    raise RuntimeError(f"{case.name}: {answer.status} {answer.body[:200]!r}")

    await asyncio.gather(*(some(first) for first in range(AT_ONCE)))


def _redis_spent(redis: RedisServer) -> tuple[int, float]:
    """Return how many commands Redis has run, and the seconds of CPU that it has used."""
    stats = redis.command("INFO", "stats").decode()
    cpu = redis.command("INFO", "cpu").decode()
    user, system = (
        float(found.group(1))
        for found in (re.search(rf"used_cpu_{kind}:([\d.]+)", cpu) for kind in ("user", "sys"))
        if found
    )
    found = re.search(r"total_commands_processed:(\d+)", stats)
    return int(found.group(1)) if found else 0, user + system
