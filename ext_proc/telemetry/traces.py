"""A span for each finished request, when a collector is configured.

Attributes follow https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/. A span holds no part of
a prompt or an answer. It is made after the fact, from the access log, with the times that Envoy measured;
its parent is the caller's `traceparent`. Nothing of OpenTelemetry is loaded when no collector is configured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ext_proc.telemetry.record import RequestRecord

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

ENDPOINT_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
DISABLED_VARIABLE: Final = "OTEL_SDK_DISABLED"


class Spans:
    """A sink of records that makes spans.

    Args:
        provider: where spans go; its processor must not block.
        provider_name: a Backend's name → the value of `gen_ai.provider.name`.
    """

    def __init__(self, provider: TracerProvider, provider_name: Callable[[str], str]) -> None:
        # The import stands here so that a process without a collector never loads the library.
        from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
            TraceContextTextMapPropagator,
        )

        self._provider = provider
        self._provider_name = provider_name
        self._tracer = provider.get_tracer("outrigger")
        self._propagator = TraceContextTextMapPropagator()
        self._kind = SpanKind.CLIENT
        self._error = Status(StatusCode.ERROR)

    def record(self, record: RequestRecord) -> None:
        """Make the span of one finished request and queue it."""
        operation, model = record.operation or "http", record.model
        span = self._tracer.start_span(
            f"{operation} {model}" if model else operation,
            context=self._propagator.extract({"traceparent": record.traceparent}),
            kind=self._kind,
            attributes=self._attributes(record),
            start_time=record.started_ns,
        )
        if record.aborted or record.status >= 400:
            span.set_status(self._error)
        span.end(record.started_ns + int(record.duration_s * 1e9))

    def close(self) -> None:
        """Send what is queued; blocks for as long as the exporter's time limit."""
        self._provider.shutdown()

    def _attributes(self, record: RequestRecord) -> dict[str, Any]:
        attributes: dict[str, Any] = {"http.response.status_code": record.status}
        for name, value in (
            ("gen_ai.operation.name", record.operation),
            ("gen_ai.request.model", record.model),
            ("gen_ai.provider.name", self._provider_name(record.backend) if record.backend else ""),
            ("gen_ai.usage.input_tokens", record.input_tokens),
            ("gen_ai.usage.output_tokens", record.output_tokens),
            ("outrigger.version", record.version),
            ("outrigger.backend", record.backend),
            ("outrigger.cache", record.cache),
            ("outrigger.tier", record.tier),
            ("outrigger.bypass", record.bypass.value if record.bypass else ""),
            ("outrigger.error", record.own_answer),
            ("outrigger.request_id", record.request_id),
            ("http.request.resend_count", record.attempts - 1 if record.attempts > 1 else None),
        ):
            if value not in ("", None):
                attributes[name] = value
        if record.stream:
            attributes["gen_ai.request.stream"] = True
        if record.first_byte_s is not None and record.stream:
            attributes["outrigger.first_byte_s"] = record.first_byte_s
        if record.aborted:
            attributes["error.type"] = "aborted"
        elif record.status >= 400:
            attributes["error.type"] = str(record.status)
        return attributes


def spans_from_environment(
    environment: Mapping[str, str],
    sidecar_id: str,
    workload: str,
    provider_name: Callable[[str], str],
    exporter: Callable[[Mapping[str, str]], SpanExporter],
) -> Spans | None:
    """Return a sink as the standard `OTEL_…` variables configure it; None when they name no collector.

    Args:
        environment: the process's variables. The SDK also reads `OTEL_TRACES_SAMPLER`, `OTEL_BSP_…` and
            `OTEL_RESOURCE_ATTRIBUTES`, from the process itself.
        sidecar_id: `service.instance.id`.
        workload: `outrigger.workload`.
        provider_name: a Backend's name → the value of `gen_ai.provider.name`.
        exporter: makes the exporter; called only when there is a collector, so it may import late.
    """
    if not any(environment.get(name) for name in ENDPOINT_VARIABLES):
        return None
    if environment.get(DISABLED_VARIABLE, "").lower() == "true":
        return None
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    # `create` adds OTEL_RESOURCE_ATTRIBUTES to these.
    resource = Resource.create(
        {
            "service.name": environment.get("OTEL_SERVICE_NAME") or "outrigger",
            "service.instance.id": sidecar_id,
            "outrigger.workload": workload,
        }
    )
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter(environment)))
    return Spans(provider, provider_name)
