"""Every finished request, counted once: the agent's metrics.

Names: those of the OpenTelemetry GenAI conventions where they exist
(https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics/), `openai_request_*`, and `outrigger_*`.
Label values are names that the policy in force configures, or members of closed sets; whatever else a
caller or a provider invents is `other`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from ext_proc.contract.snapshot import Snapshot
from ext_proc.exchange import CacheStatus
from ext_proc.openai.paths import PARSED
from ext_proc.telemetry.record import Bypass, RequestRecord
from ext_proc.telemetry.series import CounterTable, HistogramTable

OTHER: Final = "other"
NONE: Final = "none"
ABORTED: Final = "aborted"
CACHE_RESULTS: Final = tuple(status.value for status in CacheStatus)
_SHARED: Final = frozenset(
    status.value for status in (CacheStatus.HIT, CacheStatus.SEMANTIC_HIT, CacheStatus.COALESCED)
)
OPERATIONS: Final = frozenset(operation.value for operation in PARSED.values())
# Values of the attribute gen_ai.provider.name.
PROVIDERS: Final = {"openai": "openai", "azure-openai": "azure.ai.openai"}
SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60, 120, 300)
# The conventions' own advice for the two GenAI histograms.
GEN_AI_SECONDS: Final = tuple(0.01 * 2**power for power in range(14))
GEN_AI_TOKENS: Final = tuple(4**power for power in range(14))
_STATUSES: Final = {code: str(code) for code in range(100, 600)}


class RequestMetrics:
    """A collector for the agent's registry, and a sink of records. Not for use by several threads at once.

    Args:
        sidecar_id: who this is, for `outrigger_sidecar_info`.
        reasons: every value that `x-outrigger-error` may have.
    """

    def __init__(self, sidecar_id: str = "", reasons: frozenset[str] = frozenset()) -> None:
        self._sidecar_id = sidecar_id
        self._reasons = reasons
        self._models: frozenset[str] = frozenset()
        self._providers: dict[str, str] = {}
        self._snapshot: Snapshot | None = None
        self._requests = CounterTable(
            "openai_request", "Calls, by the HTTP status that the caller got, or aborted.", ["status"]
        )
        self._duration = HistogramTable(
            "openai_request_duration", "Seconds from a call's first to its last byte.", ["model"], SECONDS
        )
        self._first_byte = HistogramTable(
            "outrigger_stream_first_byte_seconds", "Seconds to a stream's first byte.", ["model"], SECONDS
        )
        attributes = ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"]
        self._operations = HistogramTable(
            "gen_ai_client_operation_duration_seconds",
            "Duration of a GenAI operation (OpenTelemetry gen_ai.client.operation.duration).",
            [*attributes, "error_type"],
            GEN_AI_SECONDS,
        )
        self._tokens = HistogramTable(
            "gen_ai_client_token_usage",
            "Tokens of one upstream answer (OpenTelemetry gen_ai.client.token.usage).",
            [*attributes, "gen_ai_token_type"],
            GEN_AI_TOKENS,
        )
        self._cache = CounterTable(
            "outrigger_cache_requests", "Calls that could be cached, by what the cache did.", ["result"]
        )
        self._bypass = CounterTable(
            "outrigger_bypass", "Calls that went on without the processor, by what was wrong.", ["reason"]
        )
        self._backends = CounterTable(
            "outrigger_backend_requests", "Calls that went to a Backend.", ["backend", "status"]
        )
        self._attempts = CounterTable("outrigger_upstream_attempts", "Tries on a Backend.", ["backend"])
        self._retries = CounterTable(
            "outrigger_upstream_retries", "Tries after the first one of a call.", ["backend"]
        )
        self._failures = CounterTable(
            "outrigger_failures", "Calls that Envoy saw fail, by its response flag.", ["reason"]
        )
        self._own_answers = CounterTable(
            "outrigger_own_answers", "Answers of the mesh itself, by their reason.", ["reason"]
        )
        self._tables = (
            *(self._requests, self._duration, self._first_byte, self._operations, self._tokens),
            *(self._cache, self._bypass, self._backends, self._attempts, self._retries),
            *(self._failures, self._own_answers),
        )
        # Series that alerts are written on exist before their first event.
        self._requests.inc(("200",), 0)
        self._requests.inc((ABORTED,), 0)
        for result in CACHE_RESULTS:
            self._cache.inc((result,), 0)
        for bypass in Bypass:
            self._bypass.inc((bypass.value,), 0)

    def use(self, snapshot: Snapshot) -> None:
        """Take the names of a new policy. Those of the one before stay known: its calls are still ending."""
        previous = self._snapshot
        self._snapshot = snapshot
        self._models = frozenset(snapshot.models) | frozenset(previous.models if previous else ())
        backends = {**(previous.backends if previous else {}), **snapshot.backends}
        self._providers = {name: PROVIDERS[backend.protocol] for name, backend in backends.items()}

    def provider_name(self, backend: str) -> str:
        """Return `gen_ai.provider.name` of a Backend; `other` for one that is not configured."""
        return self._providers.get(backend, OTHER if backend else NONE)

    def record(self, record: RequestRecord) -> None:
        """Count one finished call."""
        status = ABORTED if record.aborted else _STATUSES.get(record.status, OTHER)
        model = self._model(record)
        self._requests.inc((status,))
        self._duration.observe((model,), record.duration_s)
        if record.cache in CACHE_RESULTS:
            self._cache.inc((record.cache,))
        if record.bypass is not None:
            self._bypass.inc((record.bypass.value,))
        if record.failure:
            self._failures.inc((record.failure,))
        if record.own_answer:
            self._own_answers.inc((record.own_answer if record.own_answer in self._reasons else OTHER,))
        if record.attempts:
            backend = record.backend if record.backend in self._providers else OTHER
            self._backends.inc((backend, status))
            self._attempts.inc((backend,), record.attempts)
            if record.attempts > 1:
                self._retries.inc((backend,), record.attempts - 1)
        if record.operation in OPERATIONS:
            self._operation(record, model, status)

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        for table in self._tables:
            yield from table.collect()
        snapshot = self._snapshot
        if snapshot is not None:
            info = GaugeMetricFamily(
                "outrigger_sidecar_info",
                "Always 1; which policy this sidecar obeys.",
                labels=["sidecar", "workload", "version"],
            )
            info.add_metric([self._sidecar_id, snapshot.workload, snapshot.version], 1)
            yield info
            yield GaugeMetricFamily(
                "outrigger_snapshot_revision", "Revision of the policy in force.", value=snapshot.revision
            )

    def _model(self, record: RequestRecord) -> str:
        if record.model:
            return record.model if record.model in self._models else OTHER
        return OTHER if record.operation and record.bypass is None else NONE

    def _operation(self, record: RequestRecord, model: str, status: str) -> None:
        failed = record.aborted or record.status >= 400
        attributes = (record.operation, self.provider_name(record.backend), model)
        self._operations.observe((*attributes, status if failed else ""), record.duration_s)
        if record.stream and record.first_byte_s is not None and not failed:
            self._first_byte.observe((model,), record.first_byte_s)
        if record.cache in _SHARED:
            # Its tokens are counted where they were bought.
            return
        if record.input_tokens is not None:
            self._tokens.observe((*attributes, "input"), record.input_tokens)
        if record.output_tokens is not None:
            self._tokens.observe((*attributes, "output"), record.output_tokens)
