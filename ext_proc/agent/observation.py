"""What the agent makes of Envoy's access log: metrics at `/metrics`, and spans where a collector is named.

Built once a process; it knows the agent's settings and nothing of the rollout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

import grpc
from structlog.typing import FilteringBoundLogger

from ext_proc.agent.access_log import AccessLogSink
from ext_proc.agent.local_replies import REPLIES
from ext_proc.agent.render.routes import ROUTE_REASONS
from ext_proc.contract.snapshot import Snapshot
from ext_proc.settings import AgentSettings, SettingsError
from ext_proc.telemetry.exposition import FolderCollector, MetricsServer, serve_metrics
from ext_proc.telemetry.record import RecordSink
from ext_proc.telemetry.request_metrics import PROVIDERS, RequestMetrics
from ext_proc.telemetry.throttle import Throttled
from ext_proc.telemetry.traces import Spans, spans_from_environment

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

ENVOY_REASONS: Final = frozenset({*(reply.reason for reply in REPLIES), *ROUTE_REASONS})


class Observation:
    """Metrics and spans of one sidecar.

    Args:
        settings: the agent's settings.
        environment: variables that may name a collector of traces.
        reasons: every reason that the processor may give for an answer of its own.
        now: a monotonic clock, in seconds.
        log: where trouble is told.

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
    ) -> None:
        self._metrics = RequestMetrics(settings.sidecar_id, ENVOY_REASONS | frozenset(reasons))
        self._providers: dict[str, str] = {}
        self._spans: Spans | None = spans_from_environment(
            environment, settings.sidecar_id, settings.workload, self._provider_name, _exporter
        )
        sinks: list[RecordSink] = [self._metrics]
        if self._spans is not None:
            sinks.append(self._spans)
        self._sink = AccessLogSink(sinks, Throttled(log, now))
        address = settings.metrics_address
        folder = FolderCollector(settings.run_dir.metrics, log, now)
        try:
            self._server: MetricsServer = serve_metrics(address.host, address.port, [self._metrics, folder])
        except OSError as error:
            raise SettingsError(
                f"cannot listen on {address} for metrics ({error.strerror}): choose another metrics port"
            ) from error

    @property
    def port(self) -> int:
        """The port that `/metrics` is served on."""
        return self._server.port

    def register(self, server: grpc.aio.Server) -> None:
        """Add the access-log service to the agent's gRPC server."""
        self._sink.register(server)

    def use(self, snapshot: Snapshot) -> None:
        """Take the names of the policy in force: only these become labels."""
        self._metrics.use(snapshot)
        self._providers = {name: PROVIDERS[backend.protocol] for name, backend in snapshot.backends.items()}

    def close(self) -> None:
        """Stop serving, and send the spans that are queued. Blocks for as long as that takes."""
        self._server.close()
        if self._spans is not None:
            self._spans.close()

    def _provider_name(self, backend: str) -> str:
        return self._providers.get(backend, "")


def _exporter(environment: Mapping[str, str]) -> SpanExporter:
    # The import stands here so that an agent without a collector never loads OpenTelemetry.
    from ext_proc.agent.otlp import OtlpExporter  # noqa: PLC0415

    return OtlpExporter.from_environment(environment)
