"""Policy while the mesh runs: changed by the command line and the API, in force at once, kept over deaths."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.e2e.documents import PROVIDER_KEY
from tests.harness.mesh import OUTRIGGER, Mesh
from tests.harness.processes import eventually, free_ports, until
from tests.harness.raw_http import connect, json_request
from tests.harness.rude import RudeProvider

ADMIN = "admin-token-of-the-tests"
SECOND = 1.0
HELLO = {"messages": [{"role": "user", "content": "Hello"}]}

BACKEND = """\
kind: Backend
metadata: {{name: {name}}}
spec: {{url: "http://127.0.0.1:{port}/v1", default: {default}}}
"""


def model(name: str, *versions: str, backend: str = "simulated") -> str:
    """Return a Model with versions of these names, served by models of the same names."""
    listed = ", ".join(f"{{name: {one}, backend: {backend}, upstreamModel: {one}}}" for one in versions)
    return f"kind: Model\nmetadata: {{name: {name}}}\nspec: {{versions: [{listed}]}}\n"


class Governed:
    """One mesh, and the shell of somebody who may change its policy."""

    def __init__(self, mesh: Mesh, token: str = ADMIN) -> None:
        self.mesh = mesh
        self.server = f"http://127.0.0.1:{mesh.api_port}"
        self.api = httpx.Client(
            base_url=f"{self.server}/api/v1", headers={"authorization": f"Bearer {token}"}, timeout=30
        )
        self._environment = {
            **os.environ,
            "OUTRIGGER_SERVER": self.server,
            "OUTRIGGER_TOKEN": token,
            "COLUMNS": "200",
        }

    def run(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        """Run a command; return its status, stdout and stderr."""
        done = subprocess.run(
            [str(OUTRIGGER), *arguments],
            input=stdin,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stdout + done.stderr
        return done.returncode, done.stdout, done.stderr

    def good(self, *arguments: str, stdin: str = "") -> str:
        """Run a command that has to succeed; return its stdout."""
        status, out, err = self.run(*arguments, stdin=stdin)
        assert status == 0, err
        return out

    def apply(self, *documents: str) -> int:
        """Apply documents through the API; return the revision."""
        answer = self.api.post(
            "/apply", content="---\n".join(documents), headers={"content-type": "application/yaml"}
        )
        assert answer.status_code == 200, answer.text
        return int(answer.json()["revision"])

    def chat(self, name: str, key: str = "sk-any") -> httpx.Response:
        """Ask a Model for a completion."""
        return httpx.post(
            f"{self.mesh.url}/chat/completions",
            json={"model": name, **HELLO},
            headers={"authorization": f"Bearer {key}"},
            timeout=20,
        )

    def within_a_second(self, probe: Callable[[], object], what: str) -> None:
        """Wait until a change is in force."""
        until(lambda: bool(probe()), SECOND, what)


@pytest.fixture(scope="module")
def started(simulated: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Governed]:
    """A mesh whose file has one Backend and one Model."""
    documents = BACKEND.format(name="simulated", port=simulated, default="true") + "---\n" + model("m", "one")
    with Mesh(tmp_path_factory.mktemp("governed"), documents, ("--admin-token", ADMIN)) as mesh:
        yield Governed(mesh)


@pytest.fixture
def governed(started: Governed) -> Iterator[Governed]:
    """The mesh as its file describes it, before the test and after it."""
    yield started
    started.good("rollback", "1")
    assert len(started.api.get("/models").json()["items"]) == 1
    until(lambda: in_force(started), 5, "the mesh is as it was")


def test_apply_diff_a_bad_change_and_rollback(governed: Governed, tmp_path: Path) -> None:
    """The day of a platform engineer: every step is in force at the proxy within a second."""
    first = governed.api.get("/revisions").json()["items"][0]["revision"]
    file = tmp_path / "mesh.yaml"
    file.write_text(model("m", "two") + "---\n" + model("n", "three"))
    status, out, _ = governed.run("diff", "-f", str(file))
    assert status == 1
    assert out.splitlines() == [
        "~ Model/m",
        "  - spec.versions[0].name: one",
        "  + spec.versions[0].name: two",
        "  - spec.versions[0].upstreamModel: one",
        "  + spec.versions[0].upstreamModel: two",
        "+ Model/n",
        "  + spec.versions[0].name: three",
        "  + spec.versions[0].backend: simulated",
        "  + spec.versions[0].upstreamModel: three",
    ]
    assert governed.chat("m").headers["x-outrigger-version"] == "one"

    out = governed.good("apply", "-f", str(file), "--wait")
    assert f"revision {first + 1}: 1 created, 1 updated" in out
    assert governed.chat("m").headers["x-outrigger-version"] == "two"
    assert governed.chat("n").headers["x-outrigger-version"] == "three"
    assert governed.run("diff", "-f", str(file)) == (0, "", "")
    assert "in force" in governed.good("status")

    file.write_text(model("m", "four") + "---\n" + model("n", "five", backend="simulatd"))
    status, out, err = governed.run("apply", "-f", str(file))
    assert (status, out) == (1, "")
    assert f'{file}:7: Model/n: spec.versions[0].backend: names the Backend "simulatd"' in err
    assert 'did you mean "simulated"?' in err
    assert governed.chat("m").headers["x-outrigger-version"] == "two"

    status, _, err = governed.run("delete", "backends", "simulated")
    assert status == 1
    assert "Model/m" in err

    governed.good("rollback", str(first))
    governed.within_a_second(
        lambda: governed.chat("m").headers.get("x-outrigger-version") == "one", "the first revision is back"
    )
    assert "x-outrigger-version" not in governed.chat("n").headers
    history = json.loads(governed.good("history", "-o", "json"))["items"]
    assert [(item["revision"], item["action"]) for item in history[:2]] == [
        (first + 2, "rollback"),
        (first + 1, "apply"),
    ]


CONSUMERS = """\
kind: Consumer
metadata: {name: team-a}
spec: {tenant: team-a}
---
kind: Policy
metadata: {name: known-callers}
spec: {failOpen: false, requireConsumer: true}
"""


def test_keys_live_and_die_within_a_second(governed: Governed) -> None:
    """Made, rotated with an overlap, revoked; and in no log, file or other answer."""
    mesh = governed.mesh
    governed.good("apply", "-f", "-", "--wait", stdin=CONSUMERS)
    assert governed.chat("m").status_code == 401
    first = governed.good("key", "create", "team-a").strip()
    assert first.startswith("ork_")
    governed.within_a_second(lambda: governed.chat("m", first).status_code == 200, "the key is known")
    (info,) = governed.api.get("/consumers/team-a/keys").json()["items"]
    second = governed.good("key", "rotate", "team-a", info["id"], "--overlap", "1h").strip()
    governed.within_a_second(lambda: governed.chat("m", second).status_code == 200, "the new key is known")
    assert governed.chat("m", first).status_code == 200, "the old key goes on for the overlap"
    governed.good("key", "revoke", "team-a", info["id"])
    governed.within_a_second(lambda: governed.chat("m", first).status_code == 401, "the key is refused")
    assert governed.chat("m", second).status_code == 200
    governed.good("delete", "consumers", "team-a")
    governed.within_a_second(lambda: governed.chat("m", second).status_code == 401, "its keys went with it")
    seen = mesh.log() + "".join(
        path.read_bytes().decode("latin-1") for path in mesh.data_dir.rglob("*") if path.is_file()
    )
    seen += governed.api.get("/audit").text + governed.api.get("/revisions").text
    for key in (first, second):
        assert key not in seen
        assert key.removeprefix("ork_")[:-4] not in seen


def test_a_stored_secret_reaches_the_provider_and_nobody_else(governed: Governed, rude: RudeProvider) -> None:
    """Set through the API, changed while the mesh runs; in no file, log, answer or config dump."""
    marker, later = PROVIDER_KEY, PROVIDER_KEY.replace("marker", "second")
    backend = BACKEND.format(name="rude", port=rude.port, default="false").replace(
        "default: false", "credentials: {secretRef: {name: rude, key: api-key}}"
    )
    assert governed.good("secret", "set", "rude", "api-key", stdin=marker + "\n") == (
        "secret rude stored: api-key\n"
    )
    governed.good(
        "apply", "-f", "-", "--wait", stdin=backend + "---\n" + model("secretive", "v", backend="rude")
    )

    def shown() -> str:
        """Return the key that the provider saw last."""
        assert governed.chat("secretive").status_code == 200
        headers = {name.lower(): value for name, value in rude.seen()[-1].headers}
        return headers["authorization"]

    governed.within_a_second(lambda: shown() == f"Bearer {marker}", "the key is used")
    governed.good("secret", "set", "rude", "api-key", stdin=later + "\n")
    governed.within_a_second(lambda: shown() == f"Bearer {later}", "the new key is used")
    status, _, err = governed.run("secret", "delete", "rude")
    assert status == 1
    assert "Backend/rude" in err
    mesh = governed.mesh
    seen = mesh.log() + "".join(
        path.read_bytes().decode("latin-1") for path in mesh.data_dir.rglob("*") if path.is_file()
    )
    seen += httpx.get(f"http://127.0.0.1:{mesh.admin_port}/config_dump").text
    for path in ("/secrets", "/snapshot", "/backends", "/audit", "/revisions", "/sidecars", "/explain"):
        seen += governed.api.get(path).text
    assert marker not in seen
    assert later not in seen


def batch(number: int, size: int) -> str:
    """Return `size` Consumers of one apply."""
    return "---\n".join(
        f"kind: Consumer\nmetadata: {{name: c{one}}}\nspec: {{tenant: batch-{number}}}\n"
        for one in range(size)
    )


def test_killed_in_the_middle_of_an_apply_it_is_all_or_nothing(governed: Governed) -> None:
    """Whenever the control plane dies, it comes back with one whole batch, and takes the next one."""
    size = 300
    before = governed.apply(batch(0, size))
    for number in range(1, 6):
        answered = threading.Event()

        def send(number: int = number, answered: threading.Event = answered) -> None:
            try:
                governed.apply(batch(number, size))
                answered.set()
            except httpx.HTTPError:
                pass

        sender = threading.Thread(target=send)
        sender.start()
        time.sleep(0.05 * number)  # another moment of the apply each time
        governed.mesh.kill("control-plane")
        sender.join(60)
        until(governed.mesh.ready, 15, "the control plane is back")
        items = governed.api.get("/consumers").json()["items"]
        tenants = {item["spec"]["tenant"] for item in items}
        newest = governed.api.get("/revisions", params={"limit": 1}).json()["items"][0]
        assert len(items) == size
        assert len(tenants) == 1, "one batch, whole"
        if answered.is_set():
            assert tenants == {f"batch-{number}"}, "what was answered is kept"
        assert newest["revision"] in (before, before + 1)
        before = newest["revision"]
    assert governed.chat("m").status_code == 200


def test_a_control_plane_that_died_keeps_what_the_api_changed(governed: Governed) -> None:
    """Also where a file said something else at the start."""
    governed.apply(model("m", "changed"))
    until(lambda: governed.chat("m").headers["x-outrigger-version"] == "changed", SECOND, "in force")
    governed.mesh.kill("control-plane")
    assert governed.chat("m").headers["x-outrigger-version"] == "changed", "the sidecar goes on"
    until(governed.mesh.ready, 15, "the control plane is back")
    assert governed.api.get("/models/m").json()["spec"]["versions"][0]["name"] == "changed"


def test_the_next_start_applies_the_files_and_keeps_the_rest(governed: Governed) -> None:
    """Documents, keys and history of the same data folder; the file's own documents are as the file says."""
    governed.apply(model("m", "changed"), model("other", "two"), CONSUMERS)
    key = governed.good("key", "create", "team-a").strip()
    token = governed.good("token", "create", "--role", "viewer").strip()
    governed.mesh.stop()
    governed.mesh.start()
    assert governed.chat("m", key).headers["x-outrigger-version"] == "one"
    assert governed.chat("other", key).headers["x-outrigger-version"] == "two"
    assert governed.chat("other").status_code == 401
    viewer = {"authorization": f"Bearer {token}"}
    answer = governed.api.get("/revisions", headers=viewer)
    assert answer.status_code == 200
    newest = answer.json()["items"][0]
    assert (newest["action"], newest["actor"]) == ("start", "files")
    assert [change["document"] for change in newest["changes"]] == ["Model/m"]


def test_the_demo_hands_over_a_token_once(start_mesh: Callable[..., Mesh]) -> None:
    """At its first start; the next one finds its provider and what was changed again."""
    mesh = start_mesh(None)
    found = re.findall(r"export OUTRIGGER_TOKEN=(ort_\S+)", mesh.log())
    assert len(found) == 1
    governed = Governed(mesh, found[0])
    assert "gpt-4o-mini" in governed.good("get", "models")
    assert "fast" in governed.good("explain", "--model", "fast", "-o", "json")
    governed.good("delete", "models", "text-embedding-3-small")
    mesh.stop()
    kept = "".join(path.read_bytes().decode("latin-1") for path in mesh.data_dir.rglob("*") if path.is_file())
    assert found[0] not in kept
    port = int((mesh.data_dir / "provider-port").read_text())
    with socket.create_server(("127.0.0.1", port)):
        mesh.start()
        assert mesh.log().count(found[0]) == 1
        assert governed.chat("gpt-4o-mini").status_code == 200, "its Backend follows the provider's port"
        assert "text-embedding" not in governed.good("get", "models")


# Hot push: 200 changes while 200 streams run ---------------------------------------------------------------

CHANGES = 200
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
def two_providers(tmp_path: Path) -> Iterator[tuple[int, int]]:
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
async def test_two_hundred_changes_under_two_hundred_streams(
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
    assert took[int(0.9 * len(took))] < SECOND


def in_force(governed: Governed) -> bool:
    """Return whether the sidecar serves the newest revision."""
    (sidecar,) = governed.api.get("/sidecars").json()["items"]
    return bool(sidecar["inForce"])
