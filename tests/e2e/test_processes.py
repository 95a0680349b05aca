"""The processes of a mesh: killed, stopped, started wrongly; what the command says and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.documents import SMALL_MESH
from tests.e2e.faults import CHAT, chat
from tests.harness.mesh import Mesh, http_status
from tests.harness.preloaded import Preloaded, preloaded
from tests.harness.processes import alive, eventually, free_ports, until
from tests.harness.raw_http import connect, json_request, post
from tests.harness.rude import STREAM_END, STREAM_HEAD, Piece, RudeProvider, chunk, delta, event

PORT_FLAGS = ("--proxy-port", "--api-port", "--metrics-port", "--envoy-admin-port")
LIMITS = {"processor": 10, "control-plane": 15, "envoy": 6, "agent": 10}


@pytest.fixture(scope="module")
def small(rude: RudeProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """A small mesh that tests stop and start."""
    documents = SMALL_MESH.format(rude=rude.port, fail_open="true")
    mesh = Mesh(tmp_path_factory.mktemp("small"), documents)
    yield mesh
    mesh.stop()


@pytest.fixture
def running(small: Mesh) -> Mesh:
    """The small mesh, started when the test before has stopped it; in service as soon as it is ready."""
    if not small.started:
        small.start()
        serves_at_once(small)
    return small


def serves_at_once(mesh: Mesh) -> None:
    """See that the first call is decided, and that the health page answers without a token."""
    answer = asyncio.run(post(mesh.proxy_port, chat("first")))
    assert answer.get("x-outrigger-model") == "plain"
    assert http_status(f"http://127.0.0.1:{mesh.api_port}/healthz") == 200


def ends(mesh: Mesh, number: signal.Signals) -> None:
    """See that all processes are gone within 12 s, that the status is 0 and the log has no traceback."""
    pids = [child.pid for child in mesh.children()]
    began = time.monotonic()
    assert mesh.stop(number) == 0
    assert time.monotonic() - began < 12
    assert not [pid for pid in pids if alive(pid)]
    assert "Traceback" not in mesh.log()


def test_ready_means_serving(small: Mesh) -> None:
    """When `/readyz` turns 200 the first call is decided; the health page answers without a token."""
    small.stop()
    small.start()
    serves_at_once(small)


async def test_each_process_can_be_killed_alone(running: Mesh) -> None:
    """After kill -9 a process is back and in service within its time; its siblings live on."""
    mesh = running

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


def test_a_killed_launcher_leaves_nothing(running: Mesh) -> None:
    """Its children die with it, even by kill -9, and the same folder starts again."""
    pids = [child.pid for child in running.children()]
    os.kill(running.pid, signal.SIGKILL)
    until(lambda: not [pid for pid in pids if alive(pid)], 5, "the children die")
    running.stop()
    running.start()


async def test_a_stream_without_end_does_not_hold_the_stop(
    running: Mesh, rude: RudeProvider, script: str
) -> None:
    """Streams that go on for ever are cut so that 12 s are kept, after SIGINT."""
    beat: list[Piece] = [chunk(event(delta("x"))), 0.2]
    headers = rude.script(script, [STREAM_HEAD, *beat * 200, STREAM_END])
    async with await connect(running.proxy_port) as connection:
        await connection.send(json_request(CHAT, chat("long", stream=True), list(headers.items())))
        await connection.receive_head()
        await asyncio.to_thread(ends, running, signal.SIGINT)


async def test_streams_in_flight_finish_before_the_end(
    running: Mesh, rude: RudeProvider, script: str
) -> None:
    """A stream that ends within the limit is not cut by SIGTERM, after which nothing is left."""
    pieces: list[Piece] = [STREAM_HEAD]
    for number in range(10):
        pieces += [chunk(event(delta(f"w{number}"))), 0.2]
    headers = rude.script(script, [*pieces, STREAM_END])
    call = asyncio.create_task(post(running.proxy_port, chat("long", stream=True), headers))
    await asyncio.to_thread(until, lambda: rude.seen(script), 5, "the call is upstream")
    await asyncio.to_thread(ends, running, signal.SIGTERM)
    assert (await call).body.count(b"data: ") == 10


def test_the_demo_needs_no_file(start_mesh: Callable[..., Mesh]) -> None:
    """`up` without a file serves the demo's models from the built-in provider, and ends as it should."""
    mesh = start_mesh(None)
    for model in ("gpt-4o-mini", "gpt-4o"):
        answer = asyncio.run(post(mesh.proxy_port, chat("hello", model)))
        assert answer.status == 200
        assert answer.get("x-outrigger-backend") == "simulated"
    repeated = asyncio.run(post(mesh.proxy_port, chat("hello", "gpt-4o-mini")))
    assert repeated.get("x-outrigger-cache") == "hit"
    document = {"model": "text-embedding-3-small", "input": "x"}
    assert asyncio.run(post(mesh.proxy_port, document, target="/v1/embeddings")).status == 200
    ends(mesh, signal.SIGTERM)


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def loaded() -> Iterator[Preloaded]:
    """The command, with all that a launcher needs."""
    with preloaded("control_plane.cli.launcher.run", "control_plane.resources.documents") as started:
        yield started


@pytest.fixture
def run(loaded: Preloaded) -> Run:
    """Run a command that ends by itself: `run(*words, **variables)`."""

    def done(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return loaded.run(words, {"COLUMNS": "200", **variables})

    return done


def _port_options(ports: dict[str, int]) -> list[str]:
    return [word for flag, port in ports.items() for word in (flag, str(port))]


def _one_sentence(ended: subprocess.CompletedProcess[str]) -> str:
    text = ended.stderr.strip()
    assert text, ended
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
def test_wrong_documents_are_refused_at_start(run: Run, tmp_path: Path, text: str, named: str) -> None:
    """One sentence that says what to do, status 1, within seconds, and no process left."""
    path = tmp_path / "mesh.yaml"
    path.write_text(text)
    options = _port_options(dict(zip(PORT_FLAGS, free_ports(4), strict=True)))
    ended = run("up", "-f", str(path), "--data-dir", str(tmp_path / "data"), *options)
    assert ended.returncode == 1
    assert named in _one_sentence(ended)


@pytest.mark.parametrize("flag", PORT_FLAGS)
def test_a_port_in_use_is_named(run: Run, tmp_path: Path, flag: str) -> None:
    """The sentence names the port and the option that changes it; status 1."""
    ports = dict(zip(PORT_FLAGS, free_ports(4), strict=True))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", ports[flag]))
        taken.listen()
        ended = run("up", "--data-dir", str(tmp_path / "data"), *_port_options(ports))
    assert ended.returncode == 1
    sentence = _one_sentence(ended)
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
def test_wrong_usage_is_2(run: Run, words: tuple[str, ...]) -> None:
    """A command line that makes no sense ends with 2 and says why."""
    ended = run(*words)
    assert ended.returncode == 2
    assert ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    "words", [(), ("up",), ("sidecar",), ("control-plane",), ("provider",), ("validate",)]
)
def test_help_has_an_example(run: Run, words: tuple[str, ...]) -> None:
    """Every command explains itself, with an example."""
    ended = run(*words, "--help")
    assert ended.returncode == 0
    assert "outrigger" in ended.stdout
    assert words == () or f"outrigger {words[0]} " in ended.stdout


def test_without_envoy_it_says_so(run: Run, tmp_path: Path) -> None:
    """A missing Envoy binary is one sentence and status 1."""
    options = _port_options(dict(zip(PORT_FLAGS, free_ports(4), strict=True)))
    nothing = str(tmp_path / "nothing-here")
    ended = run("up", "--data-dir", str(tmp_path / "data"), *options, OUTRIGGER_ENVOY=nothing)
    assert ended.returncode == 1
    assert "nvoy" in _one_sentence(ended)
