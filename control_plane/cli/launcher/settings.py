"""What a launcher is told: the options of `up` and `sidecar`."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class StreamFiles:
    """Files of a push stream over TCP, all optional: the control plane's authority, a client certificate
    with its key, the token.
    """

    ca: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None
    token: Path | None = None


@dataclass(frozen=True, slots=True)
class LaunchSettings:
    """Settings of one mesh on this machine.

    `api_port` None is a sidecar, whose policy comes from `control_plane` (a gRPC address). `files` None is
    the demo. `run_dir` None makes a short temporary folder that is removed at the end. `database` and
    `admin_token` are the control plane's; `stream` is how a sidecar reaches one elsewhere.
    `redis` and `cache_database` are what processors share. In a pod metrics listen on `metrics_bind`, not on
    `bind`, and Envoy answers probes at `health_port` of the same.
    """

    data_dir: Path
    proxy_port: int
    metrics_port: int
    envoy_admin_port: int
    api_port: int | None = None
    control_plane: str | None = None
    files: tuple[Path, ...] | None = None
    bind: str = "127.0.0.1"
    workers: int = 1
    workload: str = "default"
    sidecar_id: str = "local"
    external_envoy: bool = False
    run_dir: Path | None = None
    log_level: str = "warning"
    database: str | None = field(default=None, repr=False)
    admin_token: str | None = field(default=None, repr=False)
    stream: StreamFiles = StreamFiles()
    metrics_bind: str | None = None
    health_port: int | None = None
    redis: str | None = field(default=None, repr=False)
    cache_database: str | None = field(default=None, repr=False)

    @property
    def metrics_host(self) -> str:
        """Where metrics listen."""
        return self.metrics_bind or self.bind

    @property
    def demo(self) -> bool:
        """Whether the built-in demo is served."""
        return self.api_port is not None and self.files is None


def address(host: str, port: int) -> str:
    """Return `HOST:PORT`, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reachable(bind: str) -> str:
    """Return the host by which this machine reaches what listens on `bind`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(bind, bind)


def every_address() -> str:
    """Return the address that stands for all of this machine's, of both families where it has both."""
    return "::" if socket.has_dualstack_ipv6() else "0.0.0.0"
