"""The table of failures, row by row: each fault is done for real, with `failOpen` true and false."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from tests.bench import envoys
from tests.e2e.documents import SMALL_MESH
from tests.e2e.faults import (
    CHAT,
    Callers,
    burst,
    chat,
    kill_for_good,
    nobody_restarts,
    one_by_one,
    raise_descriptor_limit,
)
from tests.harness.mesh import OUTRIGGER, Mesh, http_status
from tests.harness.processes import eventually, free_ports, until
from tests.harness.raw_http import connect, json_request, post, request_bytes
from tests.harness.rude import (
    STREAM_END,
    STREAM_HEAD,
    Act,
    RudeProvider,
    chunk,
    completion,
    delta,
    event,
    reply,
    stream_events,
)

ROLES = {"processor", "agent", "control-plane", "envoy"}
Healed = Callable[[bool], Awaitable[Mesh]]
QUICK = """\
---
kind: Backend
metadata: {{name: quick}}
spec: {{url: "http://127.0.0.1:{port}/v1"}}
---
kind: Model
metadata: {{name: quick}}
spec: {{versions: [{{name: v1, backend: quick}}]}}
"""

both = pytest.mark.parametrize("fail_open", [True, False], ids=["open", "closed"])


@pytest.fixture(scope="module")
def lasting(
    rude: RudeProvider, quick_upstream: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[bool], Mesh]]:
    """Give one mesh that fails open and one that does not, started when they are asked for first."""
    with ExitStack() as running:

        @cache
        def of(fail_open: bool) -> Mesh:
            documents = SMALL_MESH.format(rude=rude.port, fail_open=str(fail_open).lower())
            documents += QUICK.format(port=quick_upstream)
            return running.enter_context(Mesh(tmp_path_factory.mktemp("lasting"), documents))

        yield of


@pytest.fixture
def healed_mesh(
    lasting: Callable[[bool], Mesh], rude: RudeProvider, request: pytest.FixtureRequest
) -> Healed:
    """Give a small mesh that tests before may have hurt, once all of it is back."""
    headers = rude.script(f"healed-{request.node.name}")

    async def get(fail_open: bool) -> Mesh:
        mesh = await asyncio.to_thread(lasting, fail_open)
        request.node.funcargs["healed"] = mesh  # whose log is shown on failure

        def complete() -> bool:
            return {child.role for child in mesh.children()} >= ROLES and mesh.ready()

        async def decided() -> bool:
            answers = [await post(mesh.proxy_port, chat(f"healed {n}"), headers) for n in range(5)]
            return {answer.get("x-outrigger-model") for answer in answers} == {"plain"}

        await asyncio.to_thread(until, complete, 30, "every process is there")
        await eventually(decided, 20, "requests are decided")
        return mesh

    return get


@pytest.fixture(scope="module")
def quick_upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of an Envoy that answers every chat by itself."""
    port, admin = free_ports(2)
    config = tmp_path_factory.mktemp("quick") / "upstream.json"
    envoys.write_upstream(config, port, admin)
    envoy = str(Path(sys.executable).with_name("envoy"))
    upstream = subprocess.Popen(
        [envoy, "-c", str(config), "--disable-hot-restart", "--concurrency", "1", "--log-level", "error"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: http_status(f"http://127.0.0.1:{admin}/ready") == 200, 20, "the upstream is ready")
        yield port
    finally:
        upstream.terminate()
        upstream.wait(10)


async def bypasses(mesh: Mesh) -> float:
    """Return how many requests have failed open, by the agent's own count."""
    await asyncio.sleep(0.6)  # Envoy's access log is flushed twice in that time
    lines = [line for line in mesh.metrics().splitlines() if line.startswith("outrigger_bypass_total")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


@both
async def test_processor_dead(healed_mesh: Healed, rude: RudeProvider, script: str, fail_open: bool) -> None:
    """New requests go to the default Backend as they are, within 5 ms; or are 503. Then policy returns."""
    mesh = await healed_mesh(fail_open)
    counted_before = await bypasses(mesh)
    headers = rude.script(script, reply(200, completion("as is")))
    assert (await post(mesh.proxy_port, chat("before"), headers)).get("x-outrigger-model") == "plain"
    with nobody_restarts(mesh):
        kill_for_good(mesh, "processor")
        asked = [json_request(CHAT, chat(f"{number}"), list(headers.items())) for number in range(30)]
        answered = await one_by_one(mesh.proxy_port, asked)
        other = await post(mesh.proxy_port, chat("x"), headers, "/v1/files")
        counted = await bypasses(mesh) - counted_before
    answers = [answer for answer, _ in answered]
    seen = rude.seen(script)
    if fail_open:
        assert {answer.status for answer in answers} == {200}
        assert {one.json()["model"] for one in seen[1:31]} == {"plain"}  # as it came: not renamed
        assert {answer.get("x-outrigger-backend") for answer in answers} == {"rude"}
        direct = await one_by_one(rude.port, asked)
        took, itself = (statistics.median(seconds for _, seconds in timed) for timed in (answered, direct))
        # The call itself, and 5 ms; with other tests beside it both take longer.
        assert took < max(0.005, itself) * 2
        assert other.status == 200
        assert counted >= 31
    else:
        assert {answer.status for answer in answers} == {503}
        for answer in (*answers, other):
            assert answer.status == 503
            answer.error()
            assert answer.get("x-outrigger-error")
        assert len(seen) == 1
    await asyncio.to_thread(until, lambda: mesh.pids("processor"), 10, "the processor is back")

    async def decided() -> bool:
        return (await post(mesh.proxy_port, chat("after"), headers)).get("x-outrigger-model") == "plain"

    await eventually(decided, 10, "requests are decided again")


@both
async def test_processor_hung(healed_mesh: Healed, rude: RudeProvider, script: str, fail_open: bool) -> None:
    """Requests wait at most 3 s until it is ejected, those that it had already taken too; then none waits."""
    mesh = await healed_mesh(fail_open)
    headers = rude.script(script, reply(200, completion("as is")))
    await post(mesh.proxy_port, chat("before"), headers)
    (pid,) = mesh.pids("processor")
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        first = await asyncio.gather(*(post(mesh.proxy_port, chat(f"{n}"), headers) for n in range(20)))
        waited = time.monotonic() - began
        began = time.monotonic()
        later = [await post(mesh.proxy_port, chat(f"later {n}"), headers) for n in range(10)]
        later_took = (time.monotonic() - began) / 10
    finally:
        os.kill(pid, signal.SIGCONT)
    assert waited <= 3.5
    assert {answer.status for answer in (*first, *later)} == ({200} if fail_open else {503})
    assert later_took < 0.05
    if fail_open:
        assert {one.json()["model"] for one in rude.seen(script)[1:]} == {"plain"}


@both
async def test_processor_dies_while_it_decides(
    healed_mesh: Healed, rude: RudeProvider, script: str, fail_open: bool
) -> None:
    """Requests that it had taken go to the default Backend as they came, byte for byte; or are 503."""
    mesh = await healed_mesh(fail_open)
    headers = rude.script(script, reply(200, completion("as is")))
    (pid,) = mesh.pids("processor")
    body = b'{"model":"plain",  "messages":[{"role":"user","content":"hi"}]}'
    request = request_bytes("POST", CHAT, body, [("content-type", "application/json"), *headers.items()])
    connections = [await connect(mesh.proxy_port) for _ in range(20)]
    with nobody_restarts(mesh):
        os.kill(pid, signal.SIGSTOP)
        for connection in connections:
            await connection.send(request)
        await asyncio.sleep(0.3)  # the requests stand in the processor's socket; nothing shows when
        kill_for_good(mesh, "processor")
        async with asyncio.timeout(3):
            answers = await asyncio.gather(*(connection.receive() for connection in connections))
    for connection in connections:
        connection.writer.close()
    assert {answer.status for answer in answers} == ({200} if fail_open else {503})
    assert {seen.body for seen in rude.seen(script)} == ({body} if fail_open else set())
    assert len(rude.seen(script)) == (20 if fail_open else 0)


@both
async def test_processor_dies_with_answers_on_their_way(
    healed_mesh: Healed, rude: RudeProvider, script: str, fail_open: bool
) -> None:
    """A JSON answer comes as the provider gave it, a stream to its end, whatever `failOpen` says."""
    mesh = await healed_mesh(fail_open)
    body = b'{"id": "as the provider gave it",   "choices": []}'
    early, late = stream_events("one", "two"), stream_events("three", "four")[:-1]
    whole = rude.script(f"{script}-json", [Act.HOLD, reply(200, body)])
    cut = rude.script(f"{script}-cut", [reply(200, body)[:-20], Act.HOLD, reply(200, body)[-20:]])
    streamed = rude.script(
        f"{script}-stream",
        [STREAM_HEAD, chunk(b"".join(early[:2])), Act.HOLD, chunk(b"".join(late)), STREAM_END],
    )
    silent = rude.script(f"{script}-silent", [Act.HOLD, STREAM_HEAD, chunk(b"".join(early)), STREAM_END])
    calls = [
        asyncio.create_task(post(mesh.proxy_port, chat("a", "cached"), whole)),
        asyncio.create_task(post(mesh.proxy_port, chat("b", "cached"), cut)),
        asyncio.create_task(post(mesh.proxy_port, chat("c", stream=True), streamed)),
        asyncio.create_task(post(mesh.proxy_port, chat("d", stream=True), silent)),
    ]
    names = [f"{script}-{name}" for name in ("json", "cut", "stream", "silent")]
    await asyncio.to_thread(until, lambda: all(rude.seen(name) for name in names), 5, "calls are upstream")
    await asyncio.sleep(0.2)  # the first part of the stream has passed
    with nobody_restarts(mesh):
        kill_for_good(mesh, "processor")
        for name in names:
            rude.release(name)
        json_answer, cut_answer, stream_answer, silent_answer = await asyncio.gather(*calls)
    assert (json_answer.status, json_answer.body) == (200, body)
    assert (cut_answer.status, cut_answer.body) == (200, body)
    assert (stream_answer.status, stream_answer.body) == (200, b"".join([*early[:2], *late]))
    assert (silent_answer.status, silent_answer.body) == (200, b"".join(early))


async def test_processor_killed_again_and_again_under_load(healed_mesh: Healed) -> None:
    """Three kills under load: not one wrong answer, and each time the policy comes back."""
    mesh = await healed_mesh(True)
    async with Callers(mesh, 8) as callers:
        await callers.more(100)
        for _ in range(3):
            (pid,) = await asyncio.to_thread(until, lambda: mesh.pids("processor"), 10, "a processor")
            os.kill(pid, signal.SIGKILL)
            await callers.more(200)
            await callers.more_decided(50, 10)
    assert callers.load.wrong == []
    assert set(callers.load.answers) <= {"decided", "as-is"}
    assert callers.load.slowest < 3.5


@pytest.mark.parametrize(("count", "fail_open"), [(5000, True), (2000, False)], ids=["open", "closed"])
async def test_a_burst_of_thousands_waits_its_turn(healed_mesh: Healed, count: int, fail_open: bool) -> None:
    """Thousands of requests at the same moment are all decided: none bypassed, none refused."""
    raise_descriptor_limit()
    mesh = await healed_mesh(fail_open)
    before = await bypasses(mesh)
    answers = await burst(mesh.proxy_port, count, chat("hello", "quick"), 60)
    assert {answer.status for answer in answers} == {200}
    assert {answer.get("x-outrigger-model") for answer in answers} == {"quick"}
    assert await bypasses(mesh) == before


@both
async def test_control_plane_dead(
    healed_mesh: Healed, rude: RudeProvider, script: str, fail_open: bool
) -> None:
    """Nothing changes: requests are decided as before."""
    mesh = await healed_mesh(fail_open)
    headers = rude.script(script)
    with nobody_restarts(mesh):
        kill_for_good(mesh, "control-plane")
        answers = [await post(mesh.proxy_port, chat(f"{n}"), headers) for n in range(20)]
    assert {answer.get("x-outrigger-model") for answer in answers} == {"plain"}
    assert {one.json()["model"] for one in rude.seen(script)} == {"renamed-upstream"}


async def test_agent_dead(healed_mesh: Healed, rude: RudeProvider, script: str) -> None:
    """Without the agent what is in force stays in force; back again it disturbs nothing."""
    mesh = await healed_mesh(False)
    headers = rude.script(script)
    async with Callers(mesh, 4) as callers:
        await callers.more(20)
        with nobody_restarts(mesh):
            kill_for_good(mesh, "agent")
            answer = await post(mesh.proxy_port, chat("hello"), headers)
            assert answer.get("x-outrigger-model") == "plain"
            await callers.more(50)
        await asyncio.to_thread(until, lambda: mesh.pids("agent"), 10, "the agent is back")
        await callers.more(200)
    assert callers.load.wrong == []
    assert set(callers.load.answers) == {"decided"}


@both
async def test_cold_start_without_a_control_plane(
    healed_mesh: Healed, rude: RudeProvider, script: str, tmp_path: Path, fail_open: bool
) -> None:
    """A sidecar that finds no control plane starts with the snapshot on disk, policy and all."""
    mesh = await healed_mesh(fail_open)
    left = shutil.copytree(mesh.data_dir, tmp_path / "left")
    proxy, metrics, admin, nobody = free_ports(4)
    command = [
        str(OUTRIGGER), "sidecar",
        "--control-plane", f"127.0.0.1:{nobody}",
        "--data-dir", str(left),
        "--proxy-port", str(proxy),
        "--metrics-port", str(metrics),
        "--envoy-admin-port", str(admin),
    ]  # fmt: skip
    log_path = tmp_path / "sidecar.log"
    sidecar = _spawn(command, log_path)
    headers = rude.script(script)
    try:

        def serves() -> bool:
            assert sidecar.poll() is None, log_path.read_text()
            return http_status(f"http://127.0.0.1:{admin}/ready") == 200

        await asyncio.to_thread(until, serves, 30, "the sidecar serves")

        async def decided() -> bool:
            return (await post(proxy, chat("cold"), headers)).get("x-outrigger-model") == "plain"

        await eventually(decided, 15, "the snapshot on disk is in force")
        assert rude.seen(script)[-1].json()["model"] == "renamed-upstream"
    finally:
        sidecar.send_signal(signal.SIGTERM)
        assert sidecar.wait(12) == 0


def _spawn(command: list[str], log_path: Path) -> subprocess.Popen[bytes]:
    with log_path.open("wb") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


@pytest.fixture
def forged_processor() -> Iterator[Callable[[Mesh], None]]:
    """Put a processor in the place of the real one that names a route nobody knows."""
    processes: list[subprocess.Popen[bytes]] = []

    def replace(mesh: Mesh) -> None:
        (command,) = [child.command.split(" ") for child in mesh.children() if child.role == "processor"]
        run_dir = Path(command[command.index("--run-dir") + 1])
        kill_for_good(mesh, "processor")
        socket = run_dir / "processor-0.sock"
        socket.unlink(missing_ok=True)
        processes.append(subprocess.Popen([sys.executable, "-m", "tests.e2e.forged_processor", str(socket)]))
        until(socket.exists, 10, "the forged processor listens")

    yield replace
    for process in processes:
        process.kill()
        process.wait()


@both
async def test_a_route_that_envoy_does_not_know(
    healed_mesh: Healed,
    rude: RudeProvider,
    script: str,
    forged_processor: Callable[[Mesh], None],
    fail_open: bool,
) -> None:
    """It is 503 `no-route`, never the default Backend."""
    mesh = await healed_mesh(fail_open)
    headers = rude.script(script)
    with nobody_restarts(mesh):
        forged_processor(mesh)

        async def decided() -> bool:
            answer = await post(mesh.proxy_port, chat("hello"), headers)
            return answer.get("x-outrigger-error") == "no-route"

        await eventually(decided, 10, "the forged processor is asked")
        before = len(rude.seen(script))
        answers = [await post(mesh.proxy_port, chat("hello"), headers) for _ in range(10)]
    for answer in answers:
        assert answer.status == 503
        assert answer.get("x-outrigger-error") == "no-route"
        answer.error()
    assert len(rude.seen(script)) == before


async def test_a_consumers_key_never_leaves_on_the_way_around(
    healed_mesh: Healed, rude: RudeProvider, script: str
) -> None:
    """Failing open, a Consumer's key is removed before the default Backend sees the request."""
    mesh = await healed_mesh(True)
    headers = rude.script(script)
    with nobody_restarts(mesh):
        kill_for_good(mesh, "processor")
        for key in ("Bearer ork_secret", "bearer   ork_secret", "ork_secret"):
            await post(mesh.proxy_port, chat("hello"), {**headers, "authorization": key})
        await post(mesh.proxy_port, chat("hello"), {**headers, "api-key": "ork_secret"})
        await post(mesh.proxy_port, chat("hello"), {**headers, "authorization": "Bearer sk-own"})
    assert not [seen for seen in rude.seen(script) if "ork_secret" in str(seen.headers)]
    assert rude.seen(script)[-1].get("authorization") == "Bearer sk-own"


async def test_a_stream_with_nobody_watching_survives_everything(
    healed_mesh: Healed, rude: RudeProvider, script: str
) -> None:
    """A stream outlives the deaths of processor, agent and control plane and their restarts."""
    mesh = await healed_mesh(True)
    pieces = [chunk(event(delta(f"w{number}"))) for number in range(4)]
    headers = rude.script(script, [STREAM_HEAD, pieces[0], Act.HOLD, *pieces[1:], STREAM_END])
    call = asyncio.create_task(post(mesh.proxy_port, chat("long", stream=True), headers, seconds=60))
    await asyncio.to_thread(until, lambda: rude.seen(script), 5, "the call is upstream")
    for role in ("processor", "agent", "control-plane"):
        (old,) = mesh.kill(role)

        def restarted(role: str = role, old: int = old) -> bool:
            pids = mesh.pids(role)
            return bool(pids) and old not in pids

        await asyncio.to_thread(until, restarted, 15, f"{role} is back")
    rude.release(script)
    assert (await call).body.count(b"data: ") == 4
