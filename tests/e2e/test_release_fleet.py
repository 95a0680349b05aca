"""A bad version and a fleet: the real control plane, many sidecars, and somebody who wants to be told."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import random
import signal
import subprocess
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog

from ext_proc.contract import push_pb2
from ext_proc.push_client import PlainDial, PushClient, Pushed
from tests.harness.mesh import OUTRIGGER, http_status
from tests.harness.plain import PLAIN
from tests.harness.processes import free_ports, until

SIDECARS = 20
ADMIN = "admin-token-of-the-tests"
SECRET = "whsec_" + base64.b64encode(b"the secret of the webhook").decode()
POLICY = """\
kind: Backend
metadata: {{name: b}}
spec: {{url: 'http://h/v1'}}
---
kind: Model
metadata: {{name: m}}
spec: {{versions: [{{name: old, backend: b}}, {{name: new, backend: b, weight: 0}}]}}
---
kind: Release
metadata: {{name: r}}
spec:
  {{model: m, from: old, to: new, steps: [20, 100], bake: 1h, gates: {{minRequests: 5000}},
    notify: [{{url: 'http://127.0.0.1:{port}/hook', secret: {{env: HOOK_SECRET}}}}]}}
---
kind: Model
metadata: {{name: n}}
spec: {{versions: [{{name: old, backend: b}}, {{name: new, backend: b, weight: 0}}]}}
---
kind: Release
metadata: {{name: asked}}
spec: {{model: n, from: old, to: new, gates: {{prometheus: [{{query: bad_ratio, max: 0.1}}]}}}}
"""
BAD_RATIO = b'{"data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "0.5"]}]}}'


async def prometheus(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one query as Prometheus would."""
    assert (await reader.readuntil(b"query=bad_ratio")).startswith(b"POST /api/v1/query HTTP/1.1")
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(BAD_RATIO) + BAD_RATIO)
    await writer.drain()
    writer.close()


class Webhook:
    """Keeps what it is told; while it is `down` it takes nothing."""

    def __init__(self) -> None:
        self.down = False
        self.refused = 0
        self.told: list[dict[str, Any]] = []
        self.ids: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        body = await reader.readexactly(int(headers["content-length"]))
        self._check(headers, body)
        if self.down:
            self.refused += 1
        else:
            self.told.append(json.loads(body))
            self.ids.append(headers["webhook-id"])
        status = "503 No" if self.down else "204 Taken"
        writer.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    def _check(self, headers: dict[str, str], body: bytes) -> None:
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        digest = hmac.new(b"the secret of the webhook", signed, hashlib.sha256).digest()
        assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}".lower()

    @property
    def types(self) -> list[str]:
        """What it was told, in order."""
        return [body["type"].removeprefix("release.") for body in self.told]


class Sidecar:
    """One that follows the policy, and reports calls of which every second one of the new version failed."""

    def __init__(self, address: str, number: int) -> None:
        self.share = -1.0
        self.spared_at = 0.0
        self.client = PushClient(
            PlainDial(address),
            lambda: push_pb2.Hello(subscriber_id=f"s{number}", workload="w"),
            self._take,
            jitter=random.random,
            log=structlog.get_logger("test"),
            pause_max_s=0.5,
        )

    def _take(self, pushed: Pushed) -> None:
        (rollout,) = pushed.snapshot.models["m"].releases
        self.share = rollout.share
        if not rollout.share and not self.spared_at:
            self.spared_at = time.time()
        self.client.acknowledge(pushed.snapshot.version, pushed.snapshot.version)

    def report(self, calls: int) -> None:
        """Tell what was counted since the beginning."""
        statistics = push_pb2.Statistics(epoch="e")
        for version, errors in (("old", 0), ("new", calls // 2)):
            statistics.releases.add(release="r", model="m", version=version, calls=calls, errors=errors)
        self.client.tell(push_pb2.Report(statistics=statistics))


class ControlPlane:
    """The process, which can be killed and started again over the same data."""

    def __init__(self, folder: Path, address: str) -> None:
        self.port = free_ports(1)[0]
        self.api = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}",
            headers={"authorization": f"Bearer {ADMIN}"},
            verify=PLAIN,
        )
        self._folder = folder
        self._command = [str(OUTRIGGER), "control-plane", "--api-port", str(self.port)]
        self._command += ["--push-address", address, "--data-dir", str(folder / "data")]
        self._command += ["--admin-token", ADMIN]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> None:
        """Start it, and wait until it serves."""
        environment = {**os.environ, "HOOK_SECRET": SECRET}
        with (self._folder / "log").open("ab") as log:
            command = [*self._command, *options]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        until(lambda: http_status(f"http://127.0.0.1:{self.port}/healthz") == 200, 20, "it serves")

    def metrics(self) -> str:
        """Return what it shows to Prometheus."""
        return self.api.get("/metrics").text

    def end(self, number: signal.Signals) -> None:
        """End it, if it runs."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(15)


def asked_phase(phase: str) -> str:
    """Return the series of a phase of the Release that asks Prometheus."""
    return f'outrigger_release_phase{{model="n",phase="{phase}",release="asked"}}'


async def when(condition: Any, seconds: float, what: str) -> None:
    """Wait until `condition` holds, with the sidecars and the webhook running."""
    deadline = time.monotonic() + seconds
    while not condition():  # several processes have no event in common
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.01)


async def test_a_rollback_reaches_every_sidecar_within_a_second_and_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The webhook is away and the control plane is killed meanwhile: told it is, once both are back."""
    webhook = Webhook()
    server = await asyncio.start_server(webhook.serve, "127.0.0.1", 0)
    (tmp_path / "p.yaml").write_text(POLICY.format(port=server.sockets[0].getsockname()[1]))
    address = f"unix:{tmp_path / 'push.sock'}"
    plane = ControlPlane(tmp_path, address)
    measured = await asyncio.start_server(prometheus, "127.0.0.1", 0)
    asked = f"http://127.0.0.1:{measured.sockets[0].getsockname()[1]}"
    sidecars = [Sidecar(address, number) for number in range(SIDECARS)]
    following: list[asyncio.Task[None]] = []
    try:
        await asyncio.to_thread(plane.start, "-f", str(tmp_path / "p.yaml"), "--prometheus", asked)
        following += [asyncio.create_task(sidecar.client.run()) for sidecar in sidecars]
        await when(lambda: all(sidecar.share == 0.2 for sidecar in sidecars), 10, "all follow")
        await when(lambda: webhook.types == ["started"], 5, "the start is told")
        # Where the runner's counting begins: at a first look that sees them.
        for sidecar in sidecars:
            sidecar.report(0)
        await asyncio.sleep(1.5)
        webhook.down = True
        reported_at = time.time()
        for sidecar in sidecars:
            sidecar.report(10)
        await when(lambda: all(sidecar.spared_at for sidecar in sidecars), 10, "all are back")
        reached_at = max(sidecar.spared_at for sidecar in sidecars)
        await when(lambda: webhook.refused >= 2, 10, "the webhook refused twice")
        # Three bad answers, five seconds apart, and the other Release goes back too.
        shows = f"{asked_phase('rolled-back')} 1.0"
        deadline = time.monotonic() + 30
        while shows not in await asyncio.to_thread(plane.metrics):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.2)
        await asyncio.to_thread(plane.end, signal.SIGKILL)
        webhook.down = False
        await asyncio.to_thread(plane.start)
        await when(lambda: "rolled-back" in webhook.types, 60, "the rollback is told")
        shown = await asyncio.to_thread(plane.metrics)
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        await asyncio.to_thread(plane.end, signal.SIGTERM)
        server.close()
        measured.close()
    assert webhook.types == ["started", "rolling-back", "rolled-back"]
    assert len(set(webhook.ids)) == 3
    decided = webhook.told[1]
    decided_at = datetime.fromisoformat(decided["timestamp"]).timestamp()
    assert [gate["new"] for gate in decided["data"]["gates"] if gate["outcome"] == "fail"] == [0.5]
    assert 'outrigger_release_phase{model="m",phase="rolled-back",release="r"} 1.0' in shown
    assert "outrigger_release_bulletins_total" in shown
    log = (tmp_path / "log").read_text()
    assert SECRET not in log
    assert "/hook" not in log
    with capsys.disabled():
        print(
            f"\n{SIDECARS} sidecars: {(reached_at - decided_at) * 1000:.0f} ms after the decision, "
            f"{(reached_at - reported_at) * 1000:.0f} ms after the calls were reported"
        )
    assert reached_at - decided_at < 1.0
    assert reached_at - reported_at < 2.5
