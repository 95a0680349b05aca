"""The processes of a mesh: killed, stopped, started wrongly; what the command says and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.documents import SMALL_MESH
from tests.e2e.faults import CHAT, chat
from tests.harness.mesh import OUTRIGGER, Mesh, http_status
from tests.harness.processes import alive, eventually, free_ports, until
from tests.harness.raw_http import connect, json_request, post
from tests.harness.rude import STREAM_END, STREAM_HEAD, Piece, RudeProvider, chunk, delta, event

PORT_FLAGS = ("--proxy-port", "--api-port", "--metrics-port", "--envoy-admin-port")
LIMITS = {"processor": 10, "control-plane": 15, "envoy": 6, "agent": 10}


def documents(rude: RudeProvider) -> str:
    """Return the documents of a small mesh."""
    return SMALL_MESH.format(rude=rude.port, fail_open="true")


async def test_each_process_can_be_killed_alone(rude: RudeProvider, start_mesh: Callable[..., Mesh]) -> None:
    """After kill -9 a process is back and in service within its time; its siblings live on."""
    mesh = start_mesh(documents(rude))

    async def serves() -> bool:
        try:
            answer = await post(mesh.proxy_port, chat("hello"), seconds=5)
        except (OSError, EOFError):
            return False
        return answer.get("x-outrigger-model") == "plain" and mesh.ready()

    for role, limit in LIMITS.items():
        others = {child.pid for child in mesh.children() if child.role != role}
        old = frozenset(mesh.kill(role))
        began = time.monotonic()

        async def back(role: str = role, old: frozenset[int] = old) -> bool:
            pids = mesh.pids(role)
            return bool(pids) and not old & set(pids) and await serves()

        await eventually(back, limit, f"{role} is back and in service")
        assert others <= {child.pid for child in mesh.children()}, f"siblings of {role} died"
        print(f"{role}: back after {time.monotonic() - began:.1f} s")


def test_processes_are_siblings_and_listen_on_loopback(mesh: Mesh) -> None:
    """Envoy, agent, processor and control plane are children of the launcher; nothing listens elsewhere."""
    roles = {child.role: child.pid for child in mesh.children()}
    assert {"envoy", "agent", "processor", "control-plane"} <= set(roles)
    inodes = set()
    for role, pid in roles.items():
        status = Path(f"/proc/{pid}/status").read_text()
        assert f"PPid:\t{mesh.pid}\n" in status, role
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                link = os.readlink(descriptor)  # noqa: PTH115 - /proc links name no files
            except OSError:
                continue
            if link.startswith("socket:["):
                inodes.add(link[8:-1])
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    addresses = {row[1] for row in rows if row[3] == "0A" and row[9] in inodes}
    assert len(addresses) >= 4
    assert {address.partition(":")[0] for address in addresses} == {"0100007F"}, addresses
    rows = [line.split() for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
    assert not [row for row in rows if row[3] == "0A" and row[9] in inodes]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_ends_everything(
    rude: RudeProvider, start_mesh: Callable[..., Mesh], number: signal.Signals
) -> None:
    """All processes are gone within 12 s, the status is 0, the log has no traceback."""
    mesh = start_mesh(documents(rude))
    pids = [child.pid for child in mesh.children()]
    began = time.monotonic()
    assert mesh.stop(number) == 0
    assert time.monotonic() - began < 12
    assert not [pid for pid in pids if alive(pid)]
    assert "Traceback" not in mesh.log()


async def test_streams_in_flight_finish_before_the_end(
    rude: RudeProvider, script: str, start_mesh: Callable[..., Mesh]
) -> None:
    """A stream that ends within the limit is not cut by a stop."""
    mesh = start_mesh(documents(rude))
    pieces: list[Piece] = [STREAM_HEAD]
    for number in range(10):
        pieces += [chunk(event(delta(f"w{number}"))), 0.2]
    headers = rude.script(script, [*pieces, STREAM_END])
    call = asyncio.create_task(post(mesh.proxy_port, chat("long", stream=True), headers))
    await asyncio.to_thread(until, lambda: rude.seen(script), 5, "the call is upstream")
    status = await asyncio.to_thread(mesh.stop)
    assert (await call).body.count(b"data: ") == 10
    assert status == 0


async def test_a_stream_without_end_does_not_hold_the_stop(
    rude: RudeProvider, script: str, start_mesh: Callable[..., Mesh]
) -> None:
    """Streams that go on for ever are cut so that 12 s are kept."""
    mesh = start_mesh(documents(rude))
    beat: list[Piece] = [chunk(event(delta("x"))), 0.2]
    headers = rude.script(script, [STREAM_HEAD, *beat * 200, STREAM_END])
    async with await connect(mesh.proxy_port) as connection:
        await connection.send(json_request(CHAT, chat("long", stream=True), list(headers.items())))
        await connection.receive_head()
        began = time.monotonic()
        assert await asyncio.to_thread(mesh.stop) == 0
        assert time.monotonic() - began < 12


def test_a_killed_launcher_leaves_nothing(rude: RudeProvider, start_mesh: Callable[..., Mesh]) -> None:
    """Its children die with it, even by kill -9, and the same folder starts again."""
    mesh = start_mesh(documents(rude))
    pids = [child.pid for child in mesh.children()]
    os.kill(mesh.pid, signal.SIGKILL)
    until(lambda: not [pid for pid in pids if alive(pid)], 5, "the children die")
    mesh.stop()
    mesh.start()


def test_the_demo_needs_no_file(start_mesh: Callable[..., Mesh]) -> None:
    """`up` without a file serves the demo's models from the built-in provider."""
    mesh = start_mesh(None)
    for model in ("gpt-4o-mini", "gpt-4o"):
        answer = asyncio.run(post(mesh.proxy_port, chat("hello", model)))
        assert answer.status == 200
        assert answer.get("x-outrigger-backend") == "simulated"
    repeated = asyncio.run(post(mesh.proxy_port, chat("hello", "gpt-4o-mini")))
    assert repeated.get("x-outrigger-cache") == "hit"
    document = {"model": "text-embedding-3-small", "input": "x"}
    assert asyncio.run(post(mesh.proxy_port, document, target="/v1/embeddings")).status == 200


def _run(*words: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(OUTRIGGER), *words],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": "200", **(environment or {})},
    )


def _port_options(ports: dict[str, int]) -> list[str]:
    return [word for flag, port in ports.items() for word in (flag, str(port))]


def _one_sentence(run: subprocess.CompletedProcess[str]) -> str:
    text = run.stderr.strip()
    assert text, run
    assert "Traceback" not in text
    assert len(text.splitlines()) <= 3, text
    return text


BACKEND = "kind: Backend\nmetadata: {name: b}\nspec: {url: 'http://127.0.0.1:9/v1'}\n"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("kind: Backend\nmetadata: {name: b\nspec: [", "mesh.yaml:3"),
        (BACKEND.replace("url:", "urll: x, url:"), "url"),
        (BACKEND.replace("Backend", "Backendd"), "Backend"),
        (BACKEND.replace("/v1'", "/v1', credentials: {env: E2E_NOT_SET}"), "E2E_NOT_SET"),
        (BACKEND + "---\nkind: Model\nmetadata: {name: m}\nspec: {versions: [{name: v, backend: c}]}\n", "c"),
        (BACKEND.replace("http://127.0.0.1:9", "http://127.0.0.1:70000"), "url"),
    ],
    ids=["bad-yaml", "unknown-field", "unknown-kind", "missing-variable", "broken-reference", "bad-url"],
)
def test_wrong_documents_are_refused_at_start(tmp_path: Path, text: str, named: str) -> None:
    """One sentence that says what to do, status 1, within seconds, and no process left."""
    path = tmp_path / "mesh.yaml"
    path.write_text(text)
    options = _port_options(dict(zip(PORT_FLAGS, free_ports(4), strict=True)))
    run = _run("up", "-f", str(path), "--data-dir", str(tmp_path / "data"), *options)
    assert run.returncode == 1
    assert named in _one_sentence(run)


@pytest.mark.parametrize("flag", PORT_FLAGS)
def test_a_port_in_use_is_named(tmp_path: Path, flag: str) -> None:
    """The sentence names the port and the option that changes it; status 1."""
    ports = dict(zip(PORT_FLAGS, free_ports(4), strict=True))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", ports[flag]))
        taken.listen()
        run = _run("up", "--data-dir", str(tmp_path / "data"), *_port_options(ports))
    assert run.returncode == 1
    sentence = _one_sentence(run)
    assert str(ports[flag]) in sentence
    assert flag in sentence


@pytest.mark.parametrize(
    "words",
    [
        ("frobnicate",),
        ("up", "--no-such-option"),
        ("up", "--proxy-port", "many"),
        ("validate",),
        ("sidecar",),
    ],
    ids="-".join,
)
def test_wrong_usage_is_2(words: tuple[str, ...]) -> None:
    """A command line that makes no sense ends with 2 and says why."""
    run = _run(*words)
    assert run.returncode == 2
    assert run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    "words", [(), ("up",), ("sidecar",), ("control-plane",), ("provider",), ("validate",)]
)
def test_help_has_an_example(words: tuple[str, ...]) -> None:
    """Every command explains itself, with an example."""
    run = _run(*words, "--help")
    assert run.returncode == 0
    assert "outrigger" in run.stdout
    assert words == () or f"outrigger {words[0]} " in run.stdout


def test_without_envoy_it_says_so(tmp_path: Path) -> None:
    """A missing Envoy binary is one sentence and status 1."""
    options = _port_options(dict(zip(PORT_FLAGS, free_ports(4), strict=True)))
    run = _run(
        "up", "--data-dir", str(tmp_path / "data"), *options,
        environment={"OUTRIGGER_ENVOY": str(tmp_path / "nothing-here")},
    )  # fmt: skip
    assert run.returncode == 1
    assert "nvoy" in _one_sentence(run)


def test_ready_means_serving(rude: RudeProvider, start_mesh: Callable[..., Mesh]) -> None:
    """When `/readyz` turns 200 the first call is decided; the health page answers without a token."""
    mesh = start_mesh(documents(rude))
    answer = asyncio.run(post(mesh.proxy_port, chat("first")))
    assert answer.get("x-outrigger-model") == "plain"
    assert http_status(f"http://127.0.0.1:{mesh.api_port}/healthz") == 200
