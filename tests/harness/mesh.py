"""The product as its user starts it: one `outrigger up` with ports and folders of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.harness.processes import Child, alive, children, free_ports, until

OUTRIGGER = Path(sys.executable).with_name("outrigger")
READY_SECONDS = 30.0
STOP_SECONDS = 12.0
# A start is seconds of work for two cores, each question takes from them.
READY_EVERY_S = 0.1


class MeshFailed(Exception):
    """The mesh did not start; the message ends with its log."""


class Mesh:
    """One running mesh. Use it as a context manager, or call `start` and `stop`.

    Args:
        folder: where its documents, data and log are kept; made when missing.
        documents: YAML documents for `-f`; None starts the built-in demo.
        options: more options for `up`.
        environment: variables beside the caller's own.
        wrapper: a command that runs it, put before its own command line.
    """

    def __init__(
        self,
        folder: Path,
        documents: str | None,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        wrapper: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        self.log_path = folder / "mesh.log"
        self.proxy_port, self.api_port, self.metrics_port, self.admin_port = free_ports(4)
        folder.mkdir(parents=True, exist_ok=True)
        if documents is not None:
            (folder / "mesh.yaml").write_text(documents, encoding="utf-8")
        self._documents = documents
        self._options = list(options)
        self._wrapper = list(wrapper)
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The base URL that an OpenAI client is given."""
        return f"http://127.0.0.1:{self.proxy_port}/v1"

    @property
    def pid(self) -> int:
        """The launcher's process id."""
        assert self._process is not None, "the mesh is not started"
        return self._process.pid

    @property
    def started(self) -> bool:
        """Whether it was started and not stopped since."""
        return self._process is not None

    def command(self) -> list[str]:
        """Return the command line that `start` runs."""
        files = [] if self._documents is None else ["-f", str(self.folder / "mesh.yaml")]
        return [
            *self._wrapper,
            str(OUTRIGGER), "up", *files,
            "--proxy-port", str(self.proxy_port),
            "--api-port", str(self.api_port),
            "--metrics-port", str(self.metrics_port),
            "--envoy-admin-port", str(self.admin_port),
            "--data-dir", str(self.data_dir),
            *self._options,
        ]  # fmt: skip

    def launch(self) -> None:
        """Start the process without waiting for anything."""
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self._environment},
                start_new_session=True,
            )

    def start(self) -> Self:
        """Start it and wait until it is ready.

        Raises:
            MeshFailed: it ended, or was not ready in time.
        """
        self.launch()
        try:
            until(self._ready_or_ended, READY_SECONDS, "the mesh is ready", READY_EVERY_S)
        except TimeoutError as error:
            self.stop()
            raise MeshFailed(f"{error}\n{self.log()}") from error
        if self._process is not None and self._process.poll() is not None:
            raise MeshFailed(f"ended with status {self._process.returncode}\n{self.log()}")
        return self

    def _ready_or_ended(self) -> bool:
        assert self._process is not None
        return self._process.poll() is not None or self.ready()

    def ready(self) -> bool:
        """Return whether /readyz says 200 now."""
        return http_status(f"http://127.0.0.1:{self.api_port}/readyz") == 200

    def log(self) -> str:
        """Return what all its processes have written."""
        return self.log_path.read_text(encoding="utf-8", errors="replace") if self.log_path.exists() else ""

    def metrics(self) -> str:
        """Return the text of the metrics port."""
        return http_text(f"http://127.0.0.1:{self.metrics_port}/metrics")

    def envoy_stats(self, pattern: str) -> dict[str, int]:
        """Return Envoy's counters and gauges whose names match the regular expression `pattern`."""
        text = http_text(f"http://127.0.0.1:{self.admin_port}/stats?filter={pattern}")
        pairs = (line.rsplit(": ", 1) for line in text.splitlines() if ": " in line)
        return {name: int(value) for name, value in pairs if value.lstrip("-").isdigit()}

    def children(self) -> list[Child]:
        """Return every process below the launcher."""
        return children(self.pid)

    def pids(self, role: str) -> list[int]:
        """Return the process ids of one role (processor, agent, control-plane, envoy, provider)."""
        return [child.pid for child in self.children() if child.role == role]

    def kill(self, role: str, number: signal.Signals = signal.SIGKILL) -> list[int]:
        """Send a signal to each process of `role` and return their ids."""
        pids = self.pids(role)
        assert pids, f"no {role} below {self.pid}: {self.children()}"
        for pid in pids:
            os.kill(pid, number)
        return pids

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it and return its exit status. Whatever is left after 12 s is killed and fails the caller.

        Raises:
            TimeoutError: the launcher or a process below it was still there.
        """
        if self._process is None:
            return 0
        below = self.children()
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            status = self._process.wait(STOP_SECONDS)
            until(lambda: not any(alive(child.pid) for child in below), 1.0, "no process is left")
            return status
        finally:
            for pid in [self._process.pid, *(child.pid for child in below)]:
                if alive(pid):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def http_status(url: str) -> int:
    """GET `url` and return the status; 0 when nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def http_text(url: str) -> str:
    """GET `url` and return the body as text."""
    with urllib.request.urlopen(url, timeout=5) as response:
        return str(response.read().decode())
