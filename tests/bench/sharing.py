"""One call for many: equal requests, followers of a stream; hits from each tier through the mesh."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median

from tests.bench.measure import Effort, Row
from tests.harness.mesh import Mesh
from tests.harness.raw_http import Connection, connect, json_request
from tests.harness.redis import RedisMissingError, redis_server
from tests.harness.rude import STREAM_HEAD, Piece, RudeProvider, Seen, chunk, completion, event, reply

PATH = "/v1/chat/completions"
CROWD, FOLLOWERS = 1_000, 200
DOCUMENTS = """\
kind: Backend
metadata: {{name: rude}}
spec: {{url: "http://127.0.0.1:{port}/v1", default: true}}
---
kind: Model
metadata: {{name: together}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Model
metadata: {{name: memory}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Model
metadata: {{name: redis}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Policy
metadata: {{name: together}}
spec: {{target: {{models: [together]}}, coalesce: {{enabled: true}}}}
---
kind: Policy
metadata: {{name: memory}}
spec: {{target: {{models: [memory]}}, cache: {{enabled: true, tiers: [memory]}}}}
---
kind: Policy
metadata: {{name: redis}}
spec: {{target: {{models: [redis]}}, cache: {{enabled: true, tiers: [redis]}}}}
"""
DONE = b"data: [DONE]\n\n"


def measure_sharing(effort: Effort, folder: Path) -> list[Row]:
    """Return the rows."""
    with ExitStack() as stack:
        rude = stack.enter_context(RudeProvider())
        options: tuple[str, ...] = ()
        with suppress(RedisMissingError):
            options = ("--redis", stack.enter_context(redis_server(folder)).url)
        mesh = Mesh(folder / "mesh", DOCUMENTS.format(port=rude.port), options)
        stack.enter_context(mesh)
        rows = [asyncio.run(_crowd(mesh.proxy_port, rude, stream=stream)) for stream in (False, True)]
        rows += [asyncio.run(_followers(mesh.proxy_port, rude, effort.rounds))]
        rows += [asyncio.run(_hits(mesh.proxy_port, effort.calls, options != ()))]
        return rows


def _question(model: str, text: str, *, stream: bool) -> bytes:
    return json_request(
        PATH, {"model": model, "messages": [{"role": "user", "content": text}], "stream": stream}
    )


def _streamed(seen: Seen) -> list[Piece]:
    """Answer slowly: the first word when all are there, after two seconds, then one each tenth."""
    words = [chunk(event({"choices": [{"index": 0, "delta": {"content": f"w{n} "}}]})) for n in range(10)]
    end = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    pieces: list[Piece] = [STREAM_HEAD, 2.0]
    for word in words:
        pieces += [word, 0.1]
    return [*pieces, chunk(end + DONE), b"0\r\n\r\n"]


async def _crowd(port: int, rude: RudeProvider, *, stream: bool) -> Row:
    """A thousand at the same moment: one call, and everybody has the whole answer."""
    name = f"crowd-{stream}"
    rude.script(name, _streamed if stream else [1.5, reply(200, completion("once"))])
    request = _question("together", f"crowd {stream}", stream=stream)
    request = request.replace(b"\r\n\r\n", f"\r\nx-script: {name}\r\n\r\n".encode(), 1)

    async def ask() -> bool:
        async with asyncio.timeout(60), await connect(port) as connection:
            await connection.send(request)
            answer = await connection.receive()
            whole = answer.body.endswith(DONE) if stream else b"once" in answer.body
            return answer.status == 200 and whole

    answered = sum(await asyncio.gather(*(ask() for _ in range(CROWD))))
    calls = len(rude.seen(name))
    return Row(
        f"{CROWD:,} equal requests at once, {'streams' if stream else 'JSON'}",
        "1 call, all answered",
        f"{calls} call, {answered:,} answered",
        (calls, answered) == (1, CROWD),
    )


async def _followers(port: int, rude: RudeProvider, rounds: int) -> Row:
    """How far behind the leader's first word the followers' is."""
    behind: list[float] = []
    for number in range(max(rounds // 2, 1)):
        name = f"live-{number}"
        rude.script(name, _streamed)
        request = _question("together", f"live {number}", stream=True)
        request = request.replace(b"\r\n\r\n", f"\r\nx-script: {name}\r\n\r\n".encode(), 1)
        leader = asyncio.create_task(_first_word(port, request))
        await asyncio.sleep(0.05)
        others = await asyncio.gather(*(_first_word(port, request) for _ in range(FOLLOWERS)))
        began = await leader
        behind += [moment - began for moment in others]
    behind.sort()
    p50, p99 = (behind[int(share * (len(behind) - 1))] * 1000 for share in (0.5, 0.99))
    return Row(
        f"first word of {FOLLOWERS} live followers behind the leader's",
        "≤ 20 ms",
        f"p50 {p50:.1f} ms, p99 {p99:.1f} ms (one Python client reads all of them)",
        p50 <= 20,
    )


async def _first_word(port: int, request: bytes) -> float:
    async with asyncio.timeout(30), await connect(port) as connection:
        await connection.send(request)
        await connection.receive_head()
        await connection.receive_chunk()
        came = time.perf_counter()
        while await connection.receive_chunk():
            pass
        return came


async def _hits(port: int, calls: int, has_redis: bool) -> Row:
    """What a hit from Redis costs more than one from memory, through the mesh, in turns."""
    if not has_redis:
        return Row("a hit from Redis through the mesh", "≤ 1 ms more", "Redis is not installed", None)
    took: dict[str, list[float]] = {"memory": [], "redis": []}
    async with await connect(port) as connection:
        for model in took:
            await _ask(connection, _question(model, "hit", stream=False))
        await asyncio.sleep(0.3)
        for _ in range(calls):
            for model, times in took.items():
                began = time.perf_counter()
                await _ask(connection, _question(model, "hit", stream=False))
                times.append(time.perf_counter() - began)
    memory, redis = (_p50(times) for times in took.values())
    return Row(
        "a hit from Redis beside one from memory, p50",
        "≤ 1 ms more",
        f"{redis - memory:+.2f} ms ({redis:.2f} against {memory:.2f})",
        redis - memory <= 1.0,
    )


async def _ask(connection: Connection, request: bytes) -> None:
    await connection.send(request)
    answer = await connection.receive()
    if answer.status != 200:
        raise RuntimeError(f"status {answer.status}")


def _p50(times: Sequence[float]) -> float:
    return median(times) * 1000
