"""The `outrigger` command many times over, its modules loaded once: for commands that end by themselves.

`python -m tests.harness.preloaded MODULE…` reads a line of JSON a run from stdin, makes a process of its own
for it, and writes its exit status.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

WITHIN_S = 100


class Preloaded:
    """Runs commands, one at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(
        self, arguments: Sequence[str], environment: Mapping[str, str] | None = None, given: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run `outrigger` with `arguments`, more variables, and `given` on stdin.

        One that has not ended in time is killed, and its status is minus the signal's number.
        """
        with TemporaryDirectory() as name:
            files = [Path(name, stream) for stream in ("stdin", "stdout", "stderr")]
            files[0].write_text(given, encoding="utf-8")
            status = self._status(arguments, environment or {}, files)
            _, out, err = (file.read_text(encoding="utf-8") for file in files)
        return subprocess.CompletedProcess(["outrigger", *arguments], status, out, err)

    def _status(self, arguments: Sequence[str], environment: Mapping[str, str], files: Sequence[Path]) -> int:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        order = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "files": [str(file) for file in files],
        }
        stdin.write(json.dumps(order) + "\n")
        stdin.flush()
        return int(stdout.readline())


@contextmanager
def preloaded(*modules: str) -> Iterator[Preloaded]:
    """Have `modules` loaded, with all that they need."""
    command = [sys.executable, "-m", "tests.harness.preloaded", *modules]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        try:
            yield Preloaded(process)
        finally:
            process.kill()


def _serve(modules: Sequence[str]) -> None:
    for module in modules:
        __import__(module)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(order: Mapping[str, Any]) -> None:
    import signal  # noqa: PLC0415 - of the child alone

    from control_plane.cli.main import main  # noqa: PLC0415 - after the modules that it is to find loaded

    signal.alarm(WITHIN_S)
    for stream, file in enumerate(order["files"]):
        os.dup2(os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND), stream)
    sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115 - what was read ahead belongs to the parent
    os.environ.update(order["environment"])
    sys.argv = ["outrigger", *order["arguments"]]
    status = 0
    try:
        main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _serve(sys.argv[1:])
