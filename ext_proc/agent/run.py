"""The agent's process: its parts put together, and their lives.

`wiring.run_agent` runs this; it knows how the parts depend on each other and nothing of what they do.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Final, Protocol

import grpc
from envoy.service.discovery.v3 import ads_pb2_grpc
from structlog.typing import FilteringBoundLogger

from ext_proc.agent.ads import DiscoveryServer
from ext_proc.agent.cache_relay import CacheRelay
from ext_proc.agent.comparison_relay import ComparisonRelay
from ext_proc.agent.credentials import Credentials, read_authorities
from ext_proc.agent.dial import TOKEN_VARIABLE, ControlPlaneDial
from ext_proc.agent.disk import SNAPSHOT_FILE, SnapshotFile
from ext_proc.agent.envoy_admin import EnvoyAdmin
from ext_proc.agent.health import Counts, Health
from ext_proc.agent.limit_relay import LimitRelay
from ext_proc.agent.observation import Observation
from ext_proc.agent.processors import ProcessorPush
from ext_proc.agent.rollout import Rollout
from ext_proc.contract import push_pb2, push_pb2_grpc
from ext_proc.contract.comparisons import Comparison
from ext_proc.contract.snapshot import Snapshot
from ext_proc.exchange import Reason
from ext_proc.push_client import MAX_SNAPSHOT_BYTES, PushClient, Pushed
from ext_proc.settings import AgentSettings, SettingsError

USUAL_AUTHORITIES: Final = (
    Path("/etc/ssl/certs/ca-certificates.crt"),  # Debian, Alpine
    Path("/etc/pki/tls/certs/ca-bundle.crt"),  # Fedora
    Path("/etc/ssl/cert.pem"),
)
CREDENTIALS_POLL_S: Final = 1.0
STOP_GRACE_S: Final = 1.0
RECONNECT_MAX_S: Final = 5.0
SERVER_OPTIONS: Final = (
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.max_send_message_length", MAX_SNAPSHOT_BYTES),
    # Processors ask every 20 s whether this process still runs; that is no abuse.
    ("grpc.http2.max_ping_strikes", 0),
)


class Counting(Counts, Protocol):
    """The statistics of this sidecar, which take in what processors find out too."""

    def compared(self, comparisons: Mapping[str, Comparison]) -> None:
        """Take in all that processors have compared, by Release."""


class Observer(Protocol):
    """What watches the traffic beside the agent."""

    @property
    def counts(self) -> Counting | None:
        """What the control plane is told of each version, if anything is counted."""

    def register(self, server: grpc.aio.Server) -> None:
        """Add services of its own to the agent's gRPC server."""

    def tell_attempts(self, tell: Callable[[push_pb2.Snapshot], None]) -> None:
        """Hand on by `tell` what attempts say of their providers."""

    def tell_service(self, in_service: Callable[[], bool]) -> None:
        """Learn by `in_service`, from any thread, whether Envoy has served a policy."""

    def use(self, snapshot: Snapshot) -> None:
        """Learn that `snapshot` is in force."""


class Agent:
    """The agent's parts.

    Args:
        settings: the process's settings.
        environment: variables that credentials may name.
        jitter: a number in [0, 1), drawn anew at each call.
        log: the process's log.
        observation: takes the access log and learns of each policy; None leaves both out.
        epoch: unique to this process.

    Raises:
        SettingsError: the settings cannot be used.
    """

    def __init__(
        self,
        settings: AgentSettings,
        environment: Mapping[str, str],
        jitter: Callable[[], float],
        log: FilteringBoundLogger,
        observation: Observer | None = None,
        *,
        epoch: str = "",
    ) -> None:
        self._settings = settings
        self._build = _build()
        self._log = log
        self._observation = observation
        try:
            authorities = read_authorities(settings.ca_file, [*USUAL_AUTHORITIES, *_certifi()])
        except OSError as error:
            raise SettingsError(str(error)) from error
        self._disk = SnapshotFile(settings.data_dir / SNAPSHOT_FILE, log)
        joining = settings.joining
        own_files = {path for path in (joining.token_file, joining.client_key) if path is not None}
        self._credentials = Credentials(
            environment,
            settings.secrets_dir or settings.data_dir / "secrets",
            log,
            withheld={TOKEN_VARIABLE, *own_files},
        )
        self._discovery = DiscoveryServer(log)
        self._cache = CacheRelay(self._tell, epoch)
        counts = observation.counts if observation is not None else None
        compared = ComparisonRelay(counts.compared) if counts is not None else None
        self._uses = LimitRelay(self._tell)
        self._processors = ProcessorPush(log, self._look_again, self._cache, compared, self._uses)
        self._cache.use(self._processors)
        if observation is not None:
            observation.tell_attempts(self._processors.tell)
        self._admin = EnvoyAdmin(settings.envoy_admin_address)
        self._client = PushClient(
            ControlPlaneDial(settings.control_plane, settings.joining, environment, log),
            self._hello,
            self._offer,
            jitter=jitter,
            log=log,
            pause_max_s=RECONNECT_MAX_S,
            held=self._held,
            standing=self._standing,
            on_question=self._cache.ask,
        )
        self._health = Health(self._admin, counts, self._client.tell)
        self._from_disk: Snapshot | None = None
        self._rollout = Rollout(
            discovery=self._discovery,
            warming=self._admin,
            processors=self._processors,
            keys=self._credentials,
            reports=self._client,
            keep=self._keep,
            authorities=authorities,
            log=log,
        )
        if observation is not None:
            observation.tell_service(lambda: self._rollout.in_service)

    async def run(self, stopping: asyncio.Event) -> None:
        """Serve until `stopping` is set.

        Raises:
            SettingsError: the socket cannot be bound.
        """
        server = await self._listen()
        kept = await asyncio.to_thread(self._disk.read)
        if kept is not None:
            try:
                self._rollout.restore(kept)
                self._from_disk = kept
                self._observe(kept)
            except ValueError as error:
                self._log.error("the snapshot on disk cannot be used", error=str(error))
        tasks = [
            asyncio.create_task(work, name=name)
            for name, work in (
                ("rollout", self._rollout.run()),
                ("push client", self._client.run()),
                ("credentials", self._watch_credentials()),
                ("health", self._health.run()),
                ("cache", self._cache.run()),
                ("uses", self._uses.run()),
                ("stop", _ended(stopping)),
            )
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await server.stop(STOP_GRACE_S)
            await self._admin.close()

    async def _listen(self) -> grpc.aio.Server:
        server = grpc.aio.server(options=SERVER_OPTIONS)
        ads_pb2_grpc.add_AggregatedDiscoveryServiceServicer_to_server(self._discovery, server)
        push_pb2_grpc.add_PolicyPushServicer_to_server(self._processors, server)  # type: ignore[no-untyped-call]
        if self._observation is not None:
            self._observation.register(server)
        path = self._settings.run_dir.agent_socket
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            server.add_insecure_port(f"unix:{path}")
        except (OSError, RuntimeError) as error:
            raise SettingsError(f"cannot listen on {path}: is the folder writable?") from error
        await server.start()
        return server

    def _hello(self) -> push_pb2.Hello:
        in_force = self._rollout.in_force
        return push_pb2.Hello(
            subscriber_id=self._settings.sidecar_id,
            workload=self._settings.workload,
            labels=self._settings.labels,
            build=self._build,
            in_force=in_force.version if in_force is not None else "",
        )

    def _keep(self, snapshot: Snapshot) -> None:
        self._disk.write(snapshot)
        self._observe(snapshot)

    def _observe(self, snapshot: Snapshot) -> None:
        if self._observation is not None:
            self._observation.use(snapshot)

    def _held(self) -> Snapshot | None:
        # What an earlier build wrote to disk may lack what this one could have read.
        in_force = self._rollout.in_force
        return in_force if in_force is not self._from_disk else None

    def _standing(self) -> Iterable[push_pb2.Report]:
        return chain(self._health.standing(), self._cache.standing(), self._uses.standing())

    def _tell(self, report: push_pb2.Report) -> None:
        self._client.tell(report)

    def _offer(self, pushed: Pushed) -> None:
        snapshot = replace(pushed.snapshot, workload=self._settings.workload)
        self._rollout.offer(snapshot, pushed.secrets)

    def _look_again(self) -> None:
        self._rollout.look_again()

    async def _watch_credentials(self) -> None:
        seen: object = None
        while True:
            in_force = self._rollout.in_force
            if in_force is not None:
                references = [
                    item.credential for item in in_force.backends.values() if item.credential is not None
                ]
                found = await asyncio.to_thread(self._credentials.resolve, references)
                if found != seen:  # the first time too: what was rendered may be older
                    self._rollout.look_again()
                seen = found
            await asyncio.sleep(CREDENTIALS_POLL_S)


def _build() -> str:
    try:
        return metadata.version("outrigger-llm")
    except metadata.PackageNotFoundError:
        return "unknown"


async def _ended(stopping: asyncio.Event) -> None:
    await stopping.wait()


def _certifi() -> list[Path]:
    try:
        import certifi  # noqa: PLC0415  (only where the machine has no authorities of its own)
    except ImportError:
        return []
    return [Path(certifi.where())]


def stop_on_signals(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
    """Set `stopping` at SIGTERM or SIGINT."""
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)


async def run_agent(
    settings: AgentSettings,
    environment: Mapping[str, str],
    jitter: Callable[[], float],
    log: FilteringBoundLogger,
    *,
    epoch: str,
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Serve until SIGTERM or SIGINT, `/metrics` included.

    Args:
        settings: the process's settings.
        environment: variables that credentials and OpenTelemetry's settings may name.
        jitter: a number in [0, 1), drawn anew at each call.
        log: the process's log.
        epoch: unique to this process.
        now: a monotonic clock, in seconds.

    Raises:
        SettingsError: the settings cannot be used.
    """
    stopping = asyncio.Event()
    stop_on_signals(asyncio.get_running_loop(), stopping)
    reasons = (reason.value for reason in Reason)
    observation = Observation(settings, environment, reasons, now, log, epoch=epoch)
    try:
        await Agent(settings, environment, jitter, log, observation, epoch=epoch).run(stopping)
    finally:
        await asyncio.to_thread(observation.close)
