"""`outrigger control-plane` as a real process."""

import asyncio
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import grpc
import httpx
import pytest

from control_plane.cli.launcher.preflight import free_port
from ext_proc.contract import push_pb2, push_pb2_grpc
from ext_proc.contract.snapshot import decode

HOST = "127.0.0.1"
POLICY = "kind: Backend\nmetadata: {name: b}\nspec: {url: 'http://h/v1', warmup: {requests: 5}}\n"


@contextmanager
def control_plane(log: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command; kill it if the test has not ended it."""
    command = [sys.executable, "-m", "control_plane", "control-plane", *options]
    with log.open("wb") as stderr, subprocess.Popen(command, stderr=stderr) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(url: str, status: int) -> httpx.Response:
    """Ask until the answer has `status`."""
    deadline = time.monotonic() + 20
    while True:
        try:
            answer = httpx.get(url)
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
    """Health at once, readiness once a sidecar follows, status 0 on SIGTERM; no effect yet is told."""
    (tmp_path / "p.yaml").write_text(POLICY)
    port, address = free_port(HOST), f"unix:{tmp_path / 'push.sock'}"
    options = ("--api-port", str(port), "--push-address", address, "--min-ready-sidecars", "1")
    with control_plane(tmp_path / "log", *options, "-f", str(tmp_path / "p.yaml")) as process:
        wait_for(f"http://{HOST}:{port}/healthz", 200)
        answer = wait_for(f"http://{HOST}:{port}/readyz", 503)
        assert answer.json()["reason"] == "0 of 1 sidecars connected"
        message = asyncio.run(follow(address))
        assert list(decode(message.content).backends) == ["b"]
        assert decode(message.content).workload == "web"
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    assert '"field":"spec.warmup.requests"' in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--api-port", "{busy}"], "port {busy} (address already in use); choose another with --api-port"),
        (["--bind", "203.0.113.5"], "choose another with --api-port or --bind"),
        (["--push-address", "127.0.0.1:{busy}"], "choose another address with --push-address"),
        (["-f", "/nowhere.yaml"], "/nowhere.yaml: cannot be read"),
    ],
)
def test_what_keeps_it_from_starting_is_one_sentence(
    options: Sequence[str], sentence: str, tmp_path: Path
) -> None:
    """Status 1, what to do, no traceback."""
    with socket.create_server((HOST, 0)) as server:
        busy = server.getsockname()[1]
        given = ["--api-port", str(free_port(HOST)), "--push-address", f"unix:{tmp_path / 'push.sock'}"]
        given += [option.format(busy=busy) for option in options]
        with control_plane(tmp_path / "log", *given) as process:
            assert process.wait(20) == 1
    lines = [line for line in (tmp_path / "log").read_text().splitlines() if line.startswith("outrigger:")]
    assert len(lines) == 1
    assert sentence.format(busy=busy) in lines[0]
    assert "Traceback" not in (tmp_path / "log").read_text()
