"""Everything that the bench measures, started and stopped together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

import httpx

from tests.bench import envoys, rivals
from tests.bench.load import chat_body
from tests.harness.mesh import Mesh, http_status
from tests.harness.processes import free_ports, until

RIVAL_SECONDS = 90

_DOCUMENTS = """\
kind: Backend
metadata: {{name: direct}}
spec: {{url: "http://127.0.0.1:{direct}/v1", default: true}}
---
kind: Backend
metadata: {{name: streams}}
spec: {{url: "http://127.0.0.1:{streams}/v1"}}
---
kind: Model
metadata: {{name: bench}}
spec: {{versions: [{{name: v1, backend: direct}}]}}
---
kind: Model
metadata: {{name: bench-cached}}
spec: {{versions: [{{name: v1, backend: direct}}]}}
---
kind: Model
metadata: {{name: bench-streams}}
spec: {{versions: [{{name: v1, backend: streams}}]}}
---
kind: Policy
metadata: {{name: cached}}
spec: {{target: {{models: [bench-cached]}}, cache: {{enabled: true}}}}
"""


@dataclass(frozen=True, slots=True)
class Target:
    """One thing under load. `pids` are the processes whose CPU time is charged to it, by name."""

    name: str
    port: int
    model: str = "bench"
    pids: dict[str, int] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Where chats are posted."""
        return f"http://127.0.0.1:{self.port}/v1/chat/completions"


class Lab:
    """The running upstreams, floors, product and rivals. Use it as a context manager.

    Args:
        folder: for configurations and logs.
        with_rivals: start the rivals that are installed.
    """

    def __init__(self, folder: Path, with_rivals: bool) -> None:
        self.folder = folder
        self.targets: dict[str, Target] = {}
        self.rivals: list[Target] = []
        self._with_rivals = with_rivals
        self._processes: list[subprocess.Popen[bytes]] = []
        self.direct_port, self.streams_port = free_ports(2)
        self.mesh = Mesh(
            folder / "mesh", _DOCUMENTS.format(direct=self.direct_port, streams=self.streams_port)
        )

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        upstream, admin = self.folder / "upstream.json", free_ports(1)[0]
        envoys.write_upstream(upstream, self.direct_port, admin)
        self._envoy("upstream", upstream, admin, workers=1)
        self._spawn(
            "streams",
            [sys.executable, "-m", "tests.bench.upstream", str(self.streams_port)],
        )
        self._add(Target("upstream", self.direct_port))
        self._floor("envoy", None)
        self._floor("floor", "pass")
        self._floor("floor-hit", "answer")
        self._floor("bare", "pass", module="tests.bench.bare")
        self._floor("bare-hit", "answer", module="tests.bench.bare")
        self.mesh.start()
        pids = {
            child.role: child.pid
            for child in self.mesh.children()
            if child.role in ("envoy", "processor", "agent")
        }
        self._add(Target("product", self.mesh.proxy_port, "bench", pids))
        self._add(Target("product-hit", self.mesh.proxy_port, "bench-cached", pids))
        if self._with_rivals:
            for rival in rivals.installed(self.folder, self.direct_port):
                self._rival(rival)

    def _rival(self, rival: rivals.Rival) -> None:
        process = self._spawn(rival.name, rival.command, rival.environment)
        try:
            until(partial(http_status, f"http://127.0.0.1:{rival.port}/"), RIVAL_SECONDS, rival.name)
        except TimeoutError:
            # The product's figures do not depend on it; its log says why it did not start.
            log = (self.folder / f"{rival.name}.log").read_text(errors="replace")
            print(f"{rival.name} did not start:\n{log[-2000:]}", file=sys.stderr)
            return
        self.rivals.append(Target(rival.name, rival.port, "bench", {"gateway": process.pid}, rival.headers))

    def _add(self, target: Target) -> None:
        self.targets[target.name] = target

    def _floor(self, name: str, shape: str | None, module: str = "tests.bench.floor") -> None:
        pids: dict[str, int] = {}
        socket = None
        if shape is not None:
            socket = str(self.folder / f"{name}.sock")
            pids["processor"] = self._spawn(name, [sys.executable, "-m", module, socket, shape]).pid
            until(lambda: Path(str(socket)).exists(), 20, f"{name} listens")
        port, admin = free_ports(2)
        config = self.folder / f"{name}.json"
        envoys.write_sidecar(config, port, admin, socket, self.direct_port)
        pids["envoy"] = self._envoy(name, config, admin, workers=1)
        target = Target(name, port, "bench", pids)
        httpx.post(target.url, content=chat_body("bench"), timeout=5).raise_for_status()
        self._add(target)

    def _envoy(self, name: str, config: Path, admin: int, workers: int) -> int:
        options = ["--disable-hot-restart", "--concurrency", str(workers), "--log-level", "warn"]
        process = self._spawn(f"{name}-envoy", [str(envoys.ENVOY), "-c", str(config), *options])
        until(lambda: http_status(f"http://127.0.0.1:{admin}/ready") == 200, 20, f"{name}'s Envoy is ready")
        return process.pid

    def _spawn(
        self, name: str, command: Sequence[str], environment: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def __exit__(self, *_: object) -> None:
        self.mesh.stop()
        for process in reversed(self._processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
