"""A sidecar for tests: the real agent, the real Envoy, deciders in processes of their own."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import grpc
import httpx
import structlog
from structlog.typing import FilteringBoundLogger

from ext_proc.agent.access_log import AccessLogSink
from ext_proc.agent.attempt_log import AttemptLog
from ext_proc.agent.bootstrap import envoy_arguments, find_envoy, render_bootstrap
from ext_proc.agent.run import Agent
from ext_proc.contract import push_pb2, push_pb2_grpc
from ext_proc.contract.snapshot import Snapshot, encode
from ext_proc.settings import Address, AgentSettings, EnvoySettings, RunDir
from ext_proc.telemetry.record import RequestRecord
from ext_proc.telemetry.throttle import Throttled
from tests.harness.plain import PLAIN
from tests.harness.processes import free_ports

ROOT = Path(__file__).parents[4]


class ControlPlane(push_pb2_grpc.PolicyPushServicer):
    """The control plane's end of the push stream: pushes what a test says, keeps what it is told."""

    def __init__(self) -> None:
        self.hellos: list[push_pb2.Hello] = []
        self.reports: list[push_pb2.Report] = []
        self.snapshot: push_pb2.Snapshot | None = None
        self._changed = asyncio.Condition()

    async def push(self, snapshot: Snapshot) -> None:
        """Push `snapshot` to whoever is or will be connected."""
        self.snapshot = push_pb2.Snapshot(version=snapshot.version, content=encode(snapshot))
        await self.announce()

    async def told(self, kind: str, version: str) -> Any:
        """Wait for an ack or a nack of `version` and return it."""
        found: list[Any] = []

        def there() -> bool:
            found.extend(
                getattr(report, kind)
                for report in self.reports
                if report.WhichOneof("kind") == kind and getattr(report, kind).version == version
            )
            return bool(found)

        async with asyncio.timeout(15), self._changed:
            await self._changed.wait_for(there)
        return found[-1]

    async def Connect(  # noqa: N802, RUF100  (the protocol's name)
        self, reports: AsyncIterator[push_pb2.Report], context: grpc.aio.ServicerContext
    ) -> None:
        """Serve one agent."""
        self.hellos.append((await anext(aiter(reports))).hello)
        reader = asyncio.create_task(self._read(reports))
        sent: push_pb2.Snapshot | None = None
        try:
            while True:
                if self.snapshot is not None and self.snapshot is not sent:
                    sent = self.snapshot
                    await context.write(sent)
                async with self._changed:
                    await self._changed.wait()
        finally:
            reader.cancel()

    async def _read(self, reports: AsyncIterator[push_pb2.Report]) -> None:
        async for report in reports:
            self.reports.append(report)
            await self.announce()

    async def announce(self) -> None:
        """Make the streams look again at what is to be pushed."""
        async with self._changed:
            self._changed.notify_all()


class AccessLog:
    """Keeps what the agent makes of Envoy's access log."""

    def __init__(self) -> None:
        self.records: list[RequestRecord] = []
        self._changed = asyncio.Event()
        warnings = Throttled(structlog.get_logger(), time.monotonic)
        self._sink = AccessLogSink([self], warnings)
        self._attempts = AttemptLog(warnings)

    def record(self, record: RequestRecord) -> None:
        """Keep one."""
        self.records.append(record)
        self._changed.set()

    @property
    def counts(self) -> None:
        """Nothing is counted."""

    def register(self, server: grpc.aio.Server) -> None:
        """Add the services that Envoy logs to to the agent's server."""
        self._sink.register(server)
        self._attempts.register(server)

    def tell_service(self, in_service: Callable[[], bool]) -> None:
        """Take no interest."""

    def tell_attempts(self, tell: Callable[[push_pb2.Snapshot], None]) -> None:
        """Tell nothing of attempts."""

    def use(self, snapshot: Snapshot) -> None:
        """Learn the policy in force."""

    async def settled(self) -> None:
        """Wait until nothing more comes."""
        while True:
            before = len(self.records)
            await asyncio.sleep(0.6)  # Envoy's log is flushed twice in that time
            if len(self.records) == before:
                return

    async def count(self, number: int) -> list[RequestRecord]:
        """Wait for `number` records and return them."""
        async with asyncio.timeout(5):
            while len(self.records) < number:
                self._changed.clear()
                await self._changed.wait()
        return self.records


class Sidecar:
    """One sidecar. Use it as an async context manager; `push` brings policy into force."""

    def __init__(
        self,
        *,
        deciders: int = 1,
        concurrency: int = 1,
        environment: Mapping[str, str] | None = None,
        ca_file: Path | None = None,
        folder: Path | None = None,
    ) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="or-"))
        self._own_folder = folder is None
        self.run_dir = RunDir(self.folder / "r")
        self.run_dir.path.mkdir(exist_ok=True)
        self.proxy_port, self.admin_port = free_ports(2)
        self.control_plane = ControlPlane()
        self.access_log = AccessLog()
        self.deciders: list[subprocess.Popen[bytes]] = []
        self.envoy: subprocess.Popen[bytes] | None = None
        self._count = deciders
        self._concurrency = concurrency
        self.environment = dict(environment or {})
        self._ca_file = ca_file
        self._log: FilteringBoundLogger = structlog.get_logger()
        self._agent: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._push_server: grpc.aio.Server | None = None

    async def __aenter__(self) -> Self:
        await self.start_control_plane()
        self.start_agent()
        for worker in range(self._count):
            self.start_decider(worker)
        self.start_envoy()
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in [*self.deciders, *([self.envoy] if self.envoy else [])]:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        await self.stop_agent()
        await self.stop_control_plane()
        if self._own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def url(self) -> str:
        """The proxy's URL."""
        return f"http://127.0.0.1:{self.proxy_port}"

    async def start_control_plane(self) -> None:
        """Serve the push stream."""
        self._push_server = grpc.aio.server()
        push_pb2_grpc.add_PolicyPushServicer_to_server(self.control_plane, self._push_server)  # type: ignore[no-untyped-call]
        self._push_server.add_insecure_port(f"unix:{self.run_dir.path}/push.sock")
        await self._push_server.start()

    async def stop_control_plane(self) -> None:
        """End the push stream."""
        if self._push_server is not None:
            await self._push_server.stop(0)

    def start_agent(self) -> None:
        """Start the agent in this process."""
        settings = AgentSettings(
            run_dir=self.run_dir,
            data_dir=self.folder / "data",
            control_plane=f"unix:{self.run_dir.path}/push.sock",
            workload="default",
            sidecar_id="test",
            workers=self._count,
            metrics_address=Address("127.0.0.1", 0),
            envoy_admin_address=Address("127.0.0.1", self.admin_port),
            ca_file=self._ca_file,
        )
        self._stopping = asyncio.Event()
        agent = Agent(
            settings,
            self.environment,
            lambda: 0.5,
            self._log,
            self.access_log,
        )
        self._agent = asyncio.create_task(agent.run(self._stopping))

    async def stop_agent(self) -> None:
        """Stop the agent."""
        if self._agent is not None:
            self._stopping.set()
            await self._agent

    def start_decider(self, worker: int) -> None:
        """Start (again) decider `worker`."""
        path = self.run_dir.processor_socket(worker)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.contract.ext_proc.agent.decider", str(path)], cwd=ROOT
        )
        self.deciders[worker : worker + 1] = [process]

    def start_envoy(self) -> None:
        """Start (again) Envoy."""
        settings = EnvoySettings(
            run_dir=self.run_dir,
            workers=self._count,
            proxy_address=Address("127.0.0.1", self.proxy_port),
            envoy_admin_address=Address("127.0.0.1", self.admin_port),
            concurrency=self._concurrency,
            log_level=os.environ.get("TEST_ENVOY_LOG", "warn"),
        )
        self.run_dir.envoy_config.write_text(render_bootstrap(settings))
        self.envoy = subprocess.Popen(envoy_arguments(find_envoy({}), settings))

    async def push(self, snapshot: Snapshot) -> None:
        """Push `snapshot` and wait until it is in force."""
        await self.control_plane.push(snapshot)
        await self.control_plane.told("ack", snapshot.version)

    async def ready(self) -> None:
        """Wait until Envoy serves and every decider is healthy."""
        async with asyncio.timeout(15), httpx.AsyncClient(trust_env=False, verify=PLAIN) as client:
            while True:
                with suppress(httpx.HTTPError):
                    answer = await client.get(f"http://127.0.0.1:{self.admin_port}/ready")
                    healthy = await self.stat("cluster.outrigger_processor.membership_healthy")
                    if (answer.status_code, healthy) == (200, self._count):
                        return
                await asyncio.sleep(0.02)

    async def stat(self, name: str) -> int:
        """Return the value of one of Envoy's stats; 0 when there is none."""
        async with httpx.AsyncClient(trust_env=False, verify=PLAIN) as client:
            answer = await client.get(
                f"http://127.0.0.1:{self.admin_port}/stats", params={"filter": f"^{name}$"}
            )
        return int(answer.text.rpartition(": ")[2] or 0)


async def until(probe: Callable[[], object], what: str, seconds: float = 20.0) -> None:
    """Wait until `probe` says something true, looking every few milliseconds.

    Raises:
        TimeoutError: it did not within `seconds`.
    """
    deadline = time.monotonic() + seconds
    while not probe():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds} s: {what}")
        await asyncio.sleep(0.01)
