"""`outrigger control-plane` as a real process."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import grpc
import httpx
import pytest

from control_plane.settings import ADMIN_TOKEN_LINE, NOT_APPLIED_LINE
from ext_proc.contract import push_pb2, push_pb2_grpc
from ext_proc.contract.snapshot import decode
from tests.harness.plain import PLAIN
from tests.harness.preloaded import Preloaded, preloaded
from tests.harness.processes import free_ports

HOST = "127.0.0.1"
POLICY = """\
kind: Backend
metadata: {name: b}
spec: {url: 'http://h/v1'}
---
kind: Model
metadata: {name: m}
spec: {versions: [{name: v, backend: b}, {name: w, backend: b}]}
---
kind: Release
metadata: {name: r}
spec: {model: m, from: v, to: w}
"""


@contextmanager
def control_plane(
    log: Path, *options: str, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command with its data beside its log; kill it if the test has not ended it."""
    command = [sys.executable, "-m", "control_plane", "control-plane", *options]
    inherited = {"OUTRIGGER_DATA_DIR": str(log.parent / "data"), **os.environ, **(environment or {})}
    with (
        log.open("ab") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, env=inherited) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def loaded() -> Iterator[Preloaded]:
    """The command with all that a control plane needs."""
    with preloaded("control_plane.wiring", "control_plane.cli.control_plane") as started:
        yield started


def ended(process: subprocess.Popen[bytes]) -> str:
    """End it and return what it has told on stdout."""
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=15)
    assert process.returncode == 0
    return out.decode()


def wait_for(url: str, status: int) -> httpx.Response:
    """Ask until the answer has `status`."""
    deadline = time.monotonic() + 20
    while True:
        try:
            answer = httpx.get(url, verify=PLAIN)
            if answer.status_code == status:
                return answer
        except httpx.HTTPError:
            pass
        assert time.monotonic() < deadline, f"{url} never said {status}"
        time.sleep(0.05)


async def follow(address: str) -> push_pb2.Snapshot:
    """Connect as a sidecar, acknowledge the first snapshot, and return it."""
    async with grpc.aio.insecure_channel(address) as channel:
        call = push_pb2_grpc.PolicyPushStub(channel).Connect()  # type: ignore[no-untyped-call]
        hello = push_pb2.Hello(subscriber_id="a", workload="web")
        await call.write(push_pb2.Report(hello=hello))
        message: push_pb2.Snapshot = await asyncio.wait_for(call.read(), 5)
        await call.write(push_pb2.Report(ack=push_pb2.Ack(version=message.version)))
        return message


def test_it_serves_the_files_and_ends_cleanly(tmp_path: Path) -> None:
    """Health at once, readiness once a sidecar follows, status 0 on SIGTERM."""
    (tmp_path / "p.yaml").write_text(POLICY)
    port, address = free_ports(1)[0], f"unix:{tmp_path / 'push.sock'}"
    options = ("--api-port", str(port), "--push-address", address, "--min-ready-sidecars", "1")
    with control_plane(tmp_path / "log", *options, "-f", str(tmp_path / "p.yaml")) as process:
        wait_for(f"http://{HOST}:{port}/healthz", 200)
        answer = wait_for(f"http://{HOST}:{port}/readyz", 503)
        assert answer.json()["reason"] == "0 of 1 sidecars connected"
        message = asyncio.run(follow(address))
        assert list(decode(message.content).backends) == ["b"]
        ended(process)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--api-port", "{busy}"], "port {busy} (address already in use); choose another with --api-port"),
        (["--bind", "203.0.113.5"], "choose another with --api-port or --bind"),
        (["--push-address", "127.0.0.1:{busy}"], "choose another address with --push-address"),
        (["-f", "/nowhere.yaml"], "/nowhere.yaml: cannot be read"),
        (["--database", "mysql://u:hidden@h/d"], "the database's URL must be postgresql://"),
        (["--data-dir", "/proc/nowhere"], "/proc/nowhere"),
        (
            ["--push-address", "127.0.0.1:{free}", "--push-cert", "/none.pem", "--push-key", "/none.key"],
            "cannot read /none.",
        ),
    ],
)
def test_what_keeps_it_from_starting_is_one_sentence(
    options: Sequence[str], sentence: str, tmp_path: Path, loaded: Preloaded
) -> None:
    """Status 1, what to do, no traceback."""
    with socket.create_server((HOST, 0)) as server:
        busy = server.getsockname()[1]
        given = ["--api-port", str(free_ports(1)[0]), "--push-address", f"unix:{tmp_path / 'push.sock'}"]
        given += [option.format(busy=busy, free=free_ports(1)[0]) for option in options]
        environment = {"OUTRIGGER_DATA_DIR": str(tmp_path / "data")}
        run = loaded.run(["control-plane", *given], environment)
    assert run.returncode == 1
    told = run.stdout + run.stderr
    lines = [line for line in told.splitlines() if line.startswith("outrigger:")]
    assert len(lines) == 1
    assert sentence.format(busy=busy) in lines[0]
    assert "Traceback" not in told
    assert "hidden" not in told


def test_the_first_start_makes_an_admin_token_and_shows_it_once(tmp_path: Path) -> None:
    """One line on stdout, and in no log or file; the next start has it still and shows none."""
    port = free_ports(1)[0]
    options = ("--api-port", str(port), "--push-address", f"unix:{tmp_path / 'push.sock'}")
    with control_plane(tmp_path / "log", *options) as process:
        wait_for(f"http://{HOST}:{port}/healthz", 200)
        told = ended(process)
    assert told.startswith(ADMIN_TOKEN_LINE)
    assert told.count("\n") == 1
    token = told.removeprefix(ADMIN_TOKEN_LINE).strip()
    with control_plane(tmp_path / "log", *options) as process:
        wait_for(f"http://{HOST}:{port}/healthz", 200)
        headers = {"authorization": f"Bearer {token}"}
        tokens = f"http://{HOST}:{port}/api/v1/tokens"
        assert httpx.get(tokens, headers=headers, verify=PLAIN).status_code == 200
        assert ended(process) == ""
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert token.encode() not in kept


@pytest.mark.parametrize(
    ("change", "rewrite", "named"),
    [
        (
            [
                {"kind": "Backend", "metadata": {"name": "b"}, "spec": {"url": "http://h/v1"}},
                {
                    "kind": "Backend",
                    "metadata": {"name": "other"},
                    "spec": {"url": "http://h/v1", "default": True},
                },
            ],
            ("", ""),
            ("Backend/b", "Backend/other"),
        ),
        (
            [
                {
                    "kind": "Release",
                    "metadata": {"name": "mine"},
                    "spec": {"model": "m", "from": "w", "to": "x"},
                }
            ],
            (", {name: x, backend: b, weight: 0}", ""),
            ("Release/mine", '"m"'),
        ),
    ],
)
def test_a_restart_beside_what_the_api_made_goes_on_with_it(
    tmp_path: Path,
    change: list[dict[str, object]],
    rewrite: tuple[str, str],
    named: tuple[str, str],
) -> None:
    """Files that contradict it are left out, and one warning says so, naming both documents."""
    token, port, address = "given-by-the-operator", free_ports(1)[0], f"unix:{tmp_path / 'push.sock'}"
    documents = POLICY.partition("---\nkind: Release")[0].replace(
        "'http://h/v1'", "'http://h/v1', default: true"
    )
    documents = documents.replace(
        "{name: w, backend: b}", "{name: w, backend: b}, {name: x, backend: b, weight: 0}"
    )
    file, api = tmp_path / "p.yaml", f"http://{HOST}:{port}/api/v1"
    file.write_text(documents)
    options = ("--api-port", str(port), "--push-address", address, "--admin-token", token, "-f", str(file))
    headers = {"authorization": f"Bearer {token}"}
    with control_plane(tmp_path / "log", *options) as process:
        wait_for(f"http://{HOST}:{port}/healthz", 200)
        answer = httpx.post(f"{api}/apply", json=change, headers=headers, verify=PLAIN)
        assert answer.status_code == 200, answer.text
        assert ended(process) == ""
    file.write_text(documents.replace(*rewrite) if rewrite[0] else documents)
    (tmp_path / "log").write_text("")
    with control_plane(tmp_path / "log", *options) as process:
        wait_for(f"http://{HOST}:{port}/healthz", 200)
        revisions = httpx.get(f"{api}/revisions", headers=headers, verify=PLAIN).json()["items"]
        told = ended(process)
    assert [item["revision"] for item in revisions] == [2, 1]
    assert told.startswith(NOT_APPLIED_LINE)
    assert all(name in told for name in named)
    (warned,) = [line for line in (tmp_path / "log").read_text().splitlines() if "not applied" in line]
    assert '"warning"' in warned


def test_every_setting_may_come_by_variable(tmp_path: Path) -> None:
    """Ports, address, token; metrics without a token on a port of their own, with one on the API's."""
    api, push, metrics = free_ports(3)
    environment = {
        "OUTRIGGER_API_PORT": str(api),
        "OUTRIGGER_PUSH_PORT": str(push),
        "OUTRIGGER_METRICS_PORT": str(metrics),
        "OUTRIGGER_ADMIN_TOKEN": "given-by-the-operator",
        "OUTRIGGER_DATABASE": f"sqlite:///{tmp_path}/elsewhere.db",
    }
    with control_plane(tmp_path / "log", environment=environment) as process:
        wait_for(f"http://{HOST}:{api}/healthz", 200)
        assert "outrigger" in wait_for(f"http://{HOST}:{metrics}/metrics", 200).text
        assert httpx.get(f"http://{HOST}:{api}/metrics", verify=PLAIN).status_code == 401
        headers = {"authorization": "Bearer given-by-the-operator"}
        assert httpx.get(f"http://{HOST}:{api}/metrics", headers=headers, verify=PLAIN).status_code == 200
        with socket.create_connection((HOST, push), 5):
            pass
        assert ended(process) == ""
    assert (tmp_path / "elsewhere.db").exists()
    assert "given-by-the-operator" not in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    "options", [("--push-cert", "c"), ("--push-client-ca", "c"), ("--api-port", "x"), ("--prometheus", "x")]
)
def test_wrong_usage_ends_with_two(options: Sequence[str], tmp_path: Path, loaded: Preloaded) -> None:
    """A certificate has a key; an authority is for TLS."""
    environment = {"OUTRIGGER_DATA_DIR": str(tmp_path / "data")}
    assert loaded.run(["control-plane", *options], environment).returncode == 2
