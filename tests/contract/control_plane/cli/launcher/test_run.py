"""A launch from beginning to end, with everything real: the demo answers, survives deaths, and stops."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.harness.plain import PLAIN
from tests.harness.processes import free_ports

HOST = "127.0.0.1"


@dataclass
class Launched:
    """A running demo."""

    process: subprocess.Popen[str]
    proxy: str
    api: str
    folder: Path

    def pids(self, word: str) -> list[int]:
        """Return the children whose command line holds `word`."""
        pid = self.process.pid
        below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in below if word in Path(f"/proc/{child}/cmdline").read_text()]

    def wait_ready(self, within_s: float) -> None:
        """Wait until the API says that the mesh serves."""
        deadline = time.monotonic() + within_s
        while True:
            try:
                if httpx.get(f"{self.api}/readyz", verify=PLAIN).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            assert self.process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.1)

    def chat(self) -> httpx.Response:
        """Make one call."""
        message = {"role": "user", "content": "Hello"}
        body = {"model": "gpt-4o-mini", "messages": [message]}
        return httpx.post(f"{self.proxy}/v1/chat/completions", json=body, timeout=20, verify=PLAIN)


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launched]:
    """Run the demo; kill it if the tests have not ended it."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "tmp").mkdir()
    proxy, api, metrics, admin = free_ports(4)
    options = [
        "--proxy-port",
        proxy,
        "--api-port",
        api,
        "--metrics-port",
        metrics,
        "--envoy-admin-port",
        admin,
    ]
    command = [sys.executable, "-m", "control_plane", "up", "--data-dir", folder / "data", *options]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdout=log,
            stderr=log,
            text=True,
            env={**os.environ, "TMPDIR": str(folder / "tmp")},
        )
    with process:
        yield Launched(process, f"http://{HOST}:{proxy}", f"http://{HOST}:{api}", folder)
        process.kill()


def test_the_demo_answers_within_thirty_seconds(launched: Launched) -> None:
    """One command, no file, and an unchanged client gets an answer; the panel says how."""
    launched.wait_ready(30)
    answer = launched.chat()
    assert answer.status_code == 200
    assert answer.headers["x-outrigger-backend"] == "simulated"
    deadline = time.monotonic() + 5
    while "Outrigger is ready" not in (log := (launched.folder / "log").read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert f"export OPENAI_BASE_URL={launched.proxy}/v1" in log


def test_it_stops_with_status_zero_and_leaves_nothing(launched: Launched) -> None:
    """No process, no temporary folder, within 12 seconds."""
    pid = launched.process.pid
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    assert len(below) == 5
    began = time.monotonic()
    launched.process.send_signal(signal.SIGTERM)
    assert launched.process.wait(20) == 0
    assert time.monotonic() - began < 12
    assert not any(Path(f"/proc/{child}/exe").exists() for child in below)
    assert list((launched.folder / "tmp").iterdir()) == []
