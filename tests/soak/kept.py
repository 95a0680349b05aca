"""One process of the soak: started, killed, stopped and let go on by its id, nothing of it left behind."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.harness.processes import children

STOP_S: Final = 12.0


class Kept:
    """A process that is started again by its owner alone."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.command = list(command)
        self._log = log
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its id; 0 when it does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else 0

    def start(self) -> None:
        """Start it, if it does not run."""
        if self.pid:
            return
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal and wait for the end of it and of all below it; what stays is killed."""
        if self._process is None:
            return
        below = [child.pid for child in children(self._process.pid)]
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pid in below:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process = None
