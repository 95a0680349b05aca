"""Two thousand sidecars on one control plane: a change, a reconnect storm, memory, all over real gRPC.

`measure_fleet` gives the rows of the report; `python -m tests.bench.fleet` prints them alone.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.bench.load import LoadFailed
from tests.bench.measure import Effort, Row
from tests.harness.processes import free_ports, rss_bytes

SIDECARS = 2_000
CLIENT_PROCESSES = 2
CHANGES = 25
QUICK_CHANGES = 20
FILES = 8_192
KIB = 1024


class Server:
    """A push server in a process of its own."""

    def __init__(self, port: int, folder: Path) -> None:
        self._process = subprocess.Popen(
            [*_command("server"), f"127.0.0.1:{port}", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._read()
        self.idle_bytes = rss_bytes(self._process.pid)

    @property
    def rss_bytes(self) -> int:
        """What it holds of the machine's memory."""
        return rss_bytes(self._process.pid)

    def ask(self, command: str, number: int) -> dict[str, Any]:
        """Have it do something; return its answer."""
        if self._process.stdin is None:
            raise LoadFailed("the push server takes no commands")
        self._process.stdin.write(f"{command} {number}\n")
        self._process.stdin.flush()
        return self._read()

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self._process.kill()
        self._process.wait()

    def _read(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            raise LoadFailed(f"the push server ended with status {self._process.wait()}")
        found: dict[str, Any] = json.loads(line)
        if "halted" in found:
            raise LoadFailed(f"a revision was halted: {found['halted']}")
        return found


def _command(role: str) -> list[str]:
    return [sys.executable, "-m", "tests.bench.fleet_processes", role]


@contextmanager
def sidecars(port: int, count: int) -> Iterator[None]:
    """Run `count` simulated sidecars that follow whoever listens on `port`."""
    share = count // CLIENT_PROCESSES
    with ExitStack() as stack:
        for index in range(CLIENT_PROCESSES):
            arguments = [f"127.0.0.1:{port}", str(index * share), str(share)]
            process = subprocess.Popen([*_command("sidecars"), *arguments], stdin=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


def measure_fleet(effort: Effort, folder: Path, count: int = SIDECARS) -> list[Row]:
    """Connect `count` sidecars, change the policy again and again, then kill the server and start another."""
    changes = CHANGES if effort == Effort.full() else QUICK_CHANGES
    (port,) = free_ports(1)
    raise_file_limit(FILES)
    server = Server(port, folder)
    try:
        with sidecars(port, count):
            _all(server.ask("await", count), count)
            idle = server.idle_bytes
            answers = [server.ask("publish", count) for _ in range(changes)]
            for answer in answers:
                _all(answer, count)
            each_bytes = (server.rss_bytes - idle) / count
            server.kill()
            server = Server(port, folder)
            storm_s = _all(server.ask("await", count), count)["seconds"]
    finally:
        server.kill()
    p99s = sorted(_p99(answer["seconds"]) for answer in answers)
    slowest = max(answer["seconds"][-1] for answer in answers)
    cpu = sorted(answer["cpu"] for answer in answers)[changes // 2]
    middle = p99s[changes // 2]
    worst = _p99(p99s)
    return [
        Row(
            f"a change acknowledged by {count} sidecars, p99 of {changes} changes",
            "≤ 1 s",
            f"{worst:.2f} s (median change {middle:.2f} s, slowest answer {slowest:.2f} s)",
            worst <= 1,
            {"p99_s": worst, "median_s": middle, "slowest_s": slowest, "server_cpu_s": cpu},
        ),
        Row(
            f"reconnect storm of {count}, from listening to all in force",
            "≤ 10 s",
            f"{storm_s:.1f} s",
            storm_s <= 10,
            {"storm_s": storm_s},
        ),
        Row(
            "control plane: memory a connected sidecar",
            "≤ 150 KB",
            f"{each_bytes / KIB:.0f} KB",
            each_bytes <= 150 * KIB,
            {"bytes": each_bytes},
        ),
    ]


def _all(answer: dict[str, Any], count: int) -> dict[str, Any]:
    if answer["in_force"] != count:
        raise LoadFailed(f"only {answer['in_force']} of {count} sidecars have it in force")
    return answer


def _p99(values: list[float]) -> float:
    return values[math.ceil(len(values) * 0.99) - 1]


def raise_file_limit(files: int) -> None:
    """Let this process, and those that it starts, have `files` open.

    Raises:
        LoadFailed: that is not allowed here.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < files:
        raise LoadFailed(f"this bench needs {files} open files, the limit is {hard}: raise it (ulimit -Hn)")
    if soft != resource.RLIM_INFINITY and soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))


def main() -> int:
    """Measure and print. The exit status is 1 when a promise is not kept."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else SIDECARS
    with tempfile.TemporaryDirectory(prefix="ob-") as folder:
        rows = measure_fleet(Effort.full(), Path(folder), count)
    for row in rows:
        print(f"{row.name}: {row.measured} (promised {row.target})")
        print(f"  {row.figures}")
    return 1 if any(row.passed is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
