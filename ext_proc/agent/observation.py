"""What the agent makes of Envoy's access log: metrics at `/metrics`, and spans where a collector is named.

Built once a process; it knows the agent's settings and nothing of the rollout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

import grpc
from structlog.typing import FilteringBoundLogger

from ext_proc.agent.access_log import AccessLogSink
from ext_proc.agent.attempt_log import AttemptLog
from ext_proc.agent.local_replies import REPLIES
from ext_proc.agent.render.routes import ROUTE_REASONS
from ext_proc.agent.statistics import VersionCounts
from ext_proc.contract import push_pb2
from ext_proc.contract.snapshot import Snapshot
from ext_proc.settings import AgentSettings, SettingsError
from ext_proc.telemetry.exposition import FolderCollector, MetricsServer, serve_metrics
from ext_proc.telemetry.record import RecordSink
from ext_proc.telemetry.request_metrics import RequestMetrics
from ext_proc.telemetry.throttle import Throttled
from ext_proc.telemetry.traces import Spans, spans_from_environment

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

STARTED_PATH: Final = "/startupz"
"""Every process of the sidecar listens, but for Envoy."""
READY_PATH: Final = "/readyz"
"""Envoy serves a policy and asks the processors; or none has come for a while."""
READY_WITHOUT_POLICY_S: Final = 40.0

LOST_SPANS_S: Final = 60.0
"""The least time between two lines about spans that no collector took."""

ENVOY_REASONS: Final = frozenset({*(reply.reason for reply in REPLIES), *ROUTE_REASONS})


class Observation:
    """Metrics and spans of one sidecar.

    Args:
        settings: the agent's settings.
        environment: variables that may name a collector of traces.
        reasons: every reason that the processor may give for an answer of its own.
        now: a monotonic clock, in seconds.
        log: where trouble is told.
        epoch: unique to this process.

    Attributes:
        counts: what the control plane is told of each version.

    Raises:
        SettingsError: the metrics address cannot be listened on.
    """

    def __init__(
        self,
        settings: AgentSettings,
        environment: Mapping[str, str],
        reasons: Iterable[str],
        now: Callable[[], float],
        log: FilteringBoundLogger,
        *,
        epoch: str,
    ) -> None:
        self.counts = VersionCounts(epoch)
        self._began_s = now()
        self._in_service: Callable[[], bool] = lambda: False
        self._metrics = RequestMetrics(settings.sidecar_id, ENVOY_REASONS | frozenset(reasons))
        self._spans = self._make_spans(settings, environment, log, Throttled(log, now, LOST_SPANS_S))
        sinks: list[RecordSink] = [self._metrics, self.counts]
        if self._spans is not None:
            sinks.append(self._spans)
        self._attempts = AttemptLog(Throttled(log, now))
        self._sink = AccessLogSink(sinks, Throttled(log, now))
        address = settings.metrics_address
        folder = FolderCollector(settings.run_dir.metrics, log, now)
        try:
            self._server: MetricsServer = serve_metrics(
                address.host,
                address.port,
                [self._metrics, folder],
                {STARTED_PATH: lambda: _listens(settings), READY_PATH: lambda: self._ready(now())},
            )
        except OSError as error:
            raise SettingsError(
                f"cannot listen on {address} for metrics ({error.strerror}): choose another metrics port"
            ) from error

    @property
    def port(self) -> int:
        """The port that `/metrics` is served on."""
        return self._server.port

    def register(self, server: grpc.aio.Server) -> None:
        """Add the services that Envoy logs to to the agent's gRPC server."""
        self._sink.register(server)
        self._attempts.register(server)

    def tell_attempts(self, tell: Callable[[push_pb2.Snapshot], None]) -> None:
        """Hand attempts on by `tell` from now on."""
        self._attempts.tell = tell

    def tell_service(self, in_service: Callable[[], bool]) -> None:
        """Learn by `in_service` whether calls are governed by a policy."""
        self._in_service = in_service

    def _ready(self, now_s: float) -> bool:
        # Whoever waits for us with its start is not to wait for a control plane that is away.
        return self._in_service() or now_s - self._began_s > READY_WITHOUT_POLICY_S

    def use(self, snapshot: Snapshot) -> None:
        """Take the names of the policy in force: only these become labels."""
        self._metrics.use(snapshot)
        self.counts.use(snapshot)

    def close(self) -> None:
        """Stop serving, and send the spans that are queued. Blocks for as long as that takes."""
        self._server.close()
        if self._spans is not None:
            self._spans.close()

    def _make_spans(
        self,
        settings: AgentSettings,
        environment: Mapping[str, str],
        log: FilteringBoundLogger,
        warnings: Throttled,
    ) -> Spans | None:
        def exporter(variables: Mapping[str, str]) -> SpanExporter:
            # The import stands here so that an agent without a collector never loads OpenTelemetry.
            from ext_proc.agent.otlp import OtlpExporter  # noqa: PLC0415

            return OtlpExporter.from_environment(variables, warnings)

        try:
            return spans_from_environment(
                environment, settings.sidecar_id, settings.workload, self._metrics.provider_name, exporter
            )
        except (OSError, ValueError) as error:
            # Calls are answered without traces, too. A value may be a secret, so only names are told.
            given = sorted(name for name in environment if name.startswith("OTEL_"))
            log.warning("no traces are sent: an OTEL_ variable cannot be used", error=str(error), given=given)
            return None


def _listens(settings: AgentSettings) -> bool:
    """Whether every process of the sidecar listens, Envoy left out, which comes after it."""
    sockets = [
        settings.run_dir.agent_socket,
        *map(settings.run_dir.processor_socket, range(settings.workers)),
    ]
    return all(socket.exists() for socket in sockets)
