"""Our programs beside the API server, as pods run them: one process each, with a log."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import httpx

from tests.harness.mesh import OUTRIGGER, http_status
from tests.harness.processes import free_ports, until

TOKEN: Final = "admin-token-of-the-tests"
START_SECONDS: Final = 40.0
STOP_SECONDS: Final = 10.0
LEASE_NAMESPACE: Final = "outrigger-system"


class Program:
    """One `outrigger …` process. Use it as a context manager, or call `start` and `stop`.

    Args:
        folder: where its log is kept.
        name: its log's name.
        words: what follows `outrigger`.
        ready_url: answers 200 once it is ready.
        environment: variables beside the caller's own.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        words: Sequence[str],
        ready_url: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log_path = folder / f"{name}.log"
        self._words = list(words)
        self._ready_url = ready_url
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None, "not started"
        return self._process.pid

    def launch(self) -> Self:
        """Start it without waiting for anything."""
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [str(OUTRIGGER), *self._words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self._environment},
            )
        return self

    def start(self) -> Self:
        """Start it and wait until it is ready."""
        process = self.launch()._process
        assert process is not None
        what = f"{self.log_path.stem} is ready"
        until(lambda: process.poll() is not None or self.ready(), START_SECONDS, what, 0.1)
        assert process.poll() is None, self.log()
        return self

    def ready(self) -> bool:
        """Return whether it says that it is ready."""
        return http_status(self._ready_url) == 200

    def log(self) -> str:
        """Return what it has written."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send it a signal; SIGKILL is waited for."""
        assert self._process is not None
        self._process.send_signal(number)
        if number is signal.SIGKILL:
            self._process.wait(10)

    def stop(self) -> int:
        """End it by SIGTERM and return its exit status.

        Raises:
            subprocess.TimeoutExpired: it was still there after ten seconds.
        """
        if self._process is None:
            return 0
        try:
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGCONT)
                self._process.send_signal(signal.SIGTERM)
            return self._process.wait(STOP_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class ControlPlane(Program):
    """`outrigger control-plane` with ports of its own, and its API."""

    def __init__(
        self, folder: Path, options: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        self.api_port, self.push_port, self.metrics_port = free_ports(3)
        self.url = f"http://127.0.0.1:{self.api_port}"
        words = [
            "control-plane",
            "--api-port", str(self.api_port),
            "--push-port", str(self.push_port),
            "--metrics-port", str(self.metrics_port),
            "--data-dir", str(folder / "data"),
            "--admin-token", TOKEN,
            *options,
        ]  # fmt: skip
        super().__init__(folder, "control-plane", words, f"{self.url}/readyz", environment)
        self.api = httpx.Client(
            base_url=f"{self.url}/api/v1", headers={"authorization": f"Bearer {TOKEN}"}, timeout=10
        )

    def document(self, plural: str, name: str) -> dict[str, Any] | None:
        """Return a document as the API shows it; None when it is not there."""
        answer = self.api.get(f"/{plural}/{name}")
        if answer.status_code == 404:
            return None
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found


def controller(
    folder: Path, kubeconfig: Path, server: str, name: str = "controller-0", token: str = TOKEN
) -> Program:
    """Return `outrigger controller` of one cluster, not yet started."""
    port = free_ports(1)[0]
    words = [
        "controller",
        "--kubeconfig", str(kubeconfig),
        "--server", server,
        "--lease-namespace", LEASE_NAMESPACE,
        "--health-port", str(port),
    ]  # fmt: skip
    environment = {"OUTRIGGER_TOKEN": token, "POD_NAME": name, "POD_NAMESPACE": LEASE_NAMESPACE}
    return Program(folder, name, words, f"http://127.0.0.1:{port}/readyz", environment)
