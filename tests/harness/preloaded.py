"""The `outrigger` command many times over, its modules loaded once: for tests of how a start fails.

`python -m tests.harness.preloaded` reads a line of JSON a run from stdin, makes a process of its own for it,
and writes its exit status.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WITHIN_S = 20


class Preloaded:
    """Runs commands, one at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, arguments: Sequence[str], output: Path, environment: Mapping[str, str]) -> int:
        """Run `outrigger` with `arguments`, append what it writes to `output`; return its exit status.

        One that has not ended in time is killed, and its status is minus the signal's number.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        order = {"arguments": list(arguments), "output": str(output), "environment": dict(environment)}
        stdin.write(json.dumps(order) + "\n")
        stdin.flush()
        return int(stdout.readline())


@contextmanager
def preloaded(module: str) -> Iterator[Preloaded]:
    """Have `module` loaded, with all that it needs."""
    command = [sys.executable, "-m", "tests.harness.preloaded", module]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        try:
            yield Preloaded(process)
        finally:
            process.kill()


def _serve(module: str) -> None:
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
    output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(output, stream)
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
    _serve(sys.argv[1])
