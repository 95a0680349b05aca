"""A time of day that can be stepped under the feet of the processes that have it."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path


class SteppedClock:
    """The clock of the processes that are started with its `environment`; without a C compiler, none."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        library = folder / "clock.so"
        compiler = shutil.which("cc")
        self.works = False
        self.environment: Mapping[str, str] = {}
        if compiler is None:
            return
        self.step(0.0)
        source = Path(__file__).with_name("clock.c")
        build = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
        self.works = subprocess.run(build, check=False, capture_output=True).returncode == 0
        if self.works:
            self.environment = {"LD_PRELOAD": str(library), "SOAK_CLOCK": str(self._file)}

    def step(self, seconds: float) -> None:
        """Show so many seconds more than the machine's clock does."""
        value = struct.pack("d", seconds)
        if self._file.exists():
            with self._file.open("r+b") as file:  # the processes look at these very bytes
                file.write(value)
        else:
            self._file.write_bytes(value)
