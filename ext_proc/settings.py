"""Settings of the data plane's processes, as their command lines give them.

Frozen values; the command line (`ext_proc.__main__`) is the only way in. Knows no process's inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

SOCKET_PATH_LIMIT = 107  # sockaddr_un.sun_path holds 108 bytes, the last one NUL


class Transport(StrEnum):
    """Who carries Envoy's messages: `http2` is our server made for that, `grpcio` the general one."""

    HTTP2 = "http2"
    GRPCIO = "grpcio"


class SettingsError(ValueError):
    """A setting cannot be used; the message says what to do about it."""


@dataclass(frozen=True, slots=True)
class Address:
    """A TCP address to listen on or to call."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read `HOST:PORT` (an IPv6 host in brackets).

        Raises:
            SettingsError: the text has another form, or the port is not within 0..65535.
        """
        host, colon, port = text.rpartition(":")
        if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise SettingsError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:10000")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))


@dataclass(frozen=True, slots=True)
class RunDir:
    """The run folder: the sockets by which the processes of one sidecar find each other."""

    path: Path

    @property
    def agent_socket(self) -> Path:
        """The agent's socket: ADS, access log, and the processors' push stream."""
        return self._socket("agent.sock")

    @property
    def metrics(self) -> Path:
        """The folder of the processes' metric files."""
        return self.path / "metrics"

    @property
    def envoy_config(self) -> Path:
        """The bootstrap that Envoy was started with."""
        return self.path / "envoy.yaml"

    def processor_socket(self, worker: int) -> Path:
        """Return the ext_proc socket of processor `worker`."""
        return self._socket(f"processor-{worker}.sock")

    def origin_socket(self, worker: int) -> Path:
        """Return the socket where processor `worker` serves the followers of its flights."""
        return self._socket(f"origin-{worker}.sock")

    @property
    def inner_socket(self) -> Path:
        """Envoy's inner listener, by which processors make calls of their own."""
        return self._socket("inner.sock")

    def _socket(self, name: str) -> Path:
        path = self.path / name
        if len(str(path).encode()) > SOCKET_PATH_LIMIT:
            raise SettingsError(
                f"the run folder {self.path} is too long for a Unix socket; choose a shorter --run-dir"
            )
        return path


def origin_cluster(worker: int) -> str:
    """Return the name of Envoy's cluster for the origin socket of processor `worker`."""
    return f"outrigger_origin_{worker}"


@dataclass(frozen=True, slots=True)
class ProcessorSettings:
    """Settings of one processor.

    `redis` and `database` are URLs of what processors share; they may hold passwords.
    """

    run_dir: RunDir
    data_dir: Path
    worker: int = 0
    transport: Transport = Transport.HTTP2
    redis: str | None = field(default=None, repr=False)
    database: str | None = field(default=None, repr=False)
    log_level: str = "info"


@dataclass(frozen=True, slots=True)
class Joining:
    """How a sidecar is let in by its control plane over TCP: PEM files, and where its token is.

    With `ca` or a client certificate the stream is secured. Without `token_file` the token is in the
    environment.
    """

    ca: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None
    token_file: Path | None = None


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Settings of the agent.

    `control_plane` is a gRPC target (`unix:/…` or `HOST:PORT`). `labels` is what else the control plane is
    told of this sidecar. `ca_file` holds the authorities that
    providers' certificates are verified against; None takes the machine's.
    """

    run_dir: RunDir
    data_dir: Path
    control_plane: str
    workload: str
    sidecar_id: str
    workers: int
    metrics_address: Address
    envoy_admin_address: Address
    secrets_dir: Path | None = None
    ca_file: Path | None = None
    joining: Joining = Joining()
    labels: Mapping[str, str] = field(default_factory=dict)
    log_level: str = "info"


@dataclass(frozen=True, slots=True)
class EnvoySettings:
    """Settings of the bootstrap. `concurrency` is the number of Envoy's worker threads.

    At `health_address`, if it has one, Envoy answers `/healthz` once it listens; then it also listens without
    a policy when none has come for a while, so that it holds nobody up.

    One thread by default: connection pools and circuit breakers belong to a thread, so that with one of
    them `quota.concurrency` is exact and connections are few; and the processor is the slower of the two.
    """

    run_dir: RunDir
    workers: int
    proxy_address: Address
    envoy_admin_address: Address
    concurrency: int = 1
    log_level: str = "warn"
    health_address: Address | None = None
