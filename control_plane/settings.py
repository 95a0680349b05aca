"""Settings of the control plane, as its command line gives them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ControlPlaneSettings:
    """Settings of one control plane.

    `push_address` is a gRPC address (`unix:/PATH` or `HOST:PORT`). `show_notices` names in the log what
    the files set that has no effect yet.
    """

    api_host: str
    api_port: int
    push_address: str
    files: tuple[Path, ...] = ()
    min_ready_sidecars: int = 0
    log_level: str = "info"
    show_notices: bool = True
