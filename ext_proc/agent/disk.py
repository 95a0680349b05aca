"""The last good snapshot on disk, so that a sidecar starts without its control plane.

It holds what was pushed: references to credentials and digests of Consumer keys, no secret in clear.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from structlog.typing import FilteringBoundLogger

from ext_proc.contract.snapshot import Snapshot, decode, encode

SNAPSHOT_FILE: Final = "snapshot.json"
"""Its name in the data folder."""


class SnapshotFile:
    """One file that is whole at any moment: written beside and moved into place."""

    def __init__(self, path: Path, log: FilteringBoundLogger) -> None:
        self._path = path
        self._log = log

    def read(self) -> Snapshot | None:
        """Return the snapshot, or None when there is none that can be read (which is logged)."""
        try:
            return decode(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self._log.warning("the snapshot on disk cannot be read", path=str(self._path), error=str(error))
            return None

    def write(self, snapshot: Snapshot) -> bool:
        """Replace the file; return False when that fails, which is logged: policy is in force without it."""
        beside = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with beside.open("wb") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(encode(snapshot))
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
        except OSError as error:
            self._log.error("the snapshot cannot be kept on disk", path=str(self._path), error=str(error))
            return False
        return True
