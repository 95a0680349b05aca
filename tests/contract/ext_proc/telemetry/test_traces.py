from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent import futures

import grpc
import pytest
import structlog
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from ext_proc.agent.otlp import _SCOPED, METHOD, OtlpExporter
from ext_proc.telemetry.record import Bypass, RequestRecord
from ext_proc.telemetry.throttle import Throttled
from ext_proc.telemetry.traces import spans_from_environment

CHAT = RequestRecord(
    started_ns=1_700_000_000_000_000_000,
    duration_s=0.5,
    status=200,
    attempts=2,
    backend="openai",
    operation="chat",
    model="gpt-4o",
    cache="miss",
    input_tokens=12,
    output_tokens=40,
    traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
)


class Collector(grpc.GenericRpcHandler):  # type: ignore[misc]
    """An OTLP collector that keeps what it gets."""

    def __init__(self) -> None:
        self.requests: list[trace_service_pb2.ExportTraceServiceRequest] = []
        self.metadata: list[dict[str, str]] = []
        self.port = 0

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Take the one method that exporters call."""
        if handler_call_details.method != METHOD:
            return None
        self.metadata.append(dict(handler_call_details.invocation_metadata))
        return grpc.unary_unary_rpc_method_handler(
            self._export,
            request_deserializer=trace_service_pb2.ExportTraceServiceRequest.FromString,
            response_serializer=trace_service_pb2.ExportTraceServiceResponse.SerializeToString,
        )

    def _export(
        self, request: trace_service_pb2.ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        self.requests.append(request)
        return trace_service_pb2.ExportTraceServiceResponse()

    def spans(self) -> list[Span]:
        """Return all spans so far."""
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in getattr(resource, _SCOPED)
            for span in scope.spans
        ]


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Run a collector on a free port."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=1))
    kept = Collector()
    server.add_generic_rpc_handlers((kept,))
    kept.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield kept
    server.stop(0)


def exporter(environment: Mapping[str, str]) -> OtlpExporter:
    """Return the exporter that the variables describe."""
    return OtlpExporter.from_environment(environment, Throttled(structlog.get_logger(), time.monotonic))


def export(collector: Collector, records: list[RequestRecord]) -> list[Span]:
    """Send records as spans and return what the collector got."""
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.port}",
        "OTEL_EXPORTER_OTLP_HEADERS": "X-Token=a%20b",
    }
    spans = spans_from_environment(environment, "pod-1", "shop", lambda backend: "openai", exporter)
    assert spans is not None
    for record in records:
        spans.record(record)
    spans.close()
    return collector.spans()


def attributes(span: Span) -> dict[str, str]:
    """Return a span's attributes as texts."""
    kinds = {item.key: item.value.WhichOneof("value") for item in span.attributes}
    return {item.key: str(getattr(item.value, str(kinds[item.key]))) for item in span.attributes}


def test_span_of_a_chat(collector: Collector) -> None:
    """A call arrives as one client span with Envoy's times, GenAI attributes and the caller's trace."""
    (span,) = export(collector, [CHAT])
    assert span.name == "chat gpt-4o"
    assert span.trace_id.hex() == "0af7651916cd43dd8448eb211c80319c"
    assert span.parent_span_id.hex() == "b7ad6b7169203331"
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (
        CHAT.started_ns,
        CHAT.started_ns + 500_000_000,
    )
    assert span.kind == Span.SPAN_KIND_CLIENT
    assert attributes(span) == {
        "http.response.status_code": "200",
        "http.request.resend_count": "1",
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.provider.name": "openai",
        "gen_ai.usage.input_tokens": "12",
        "gen_ai.usage.output_tokens": "40",
        "outrigger.backend": "openai",
        "outrigger.cache": "miss",
    }
    resource = collector.requests[0].resource_spans[0].resource
    named = {item.key: item.value.string_value for item in resource.attributes}
    assert named["service.name"] == "outrigger"
    assert named["outrigger.workload"] == "shop"
    assert collector.metadata[0]["x-token"] == "a b"


def test_failed_and_bypassed_calls(collector: Collector) -> None:
    """Errors and aborted calls are error spans; a bad traceparent begins a trace of its own."""
    failed = RequestRecord(
        started_ns=1, duration_s=0.1, status=503, bypass=Bypass.TIMEOUT, traceparent="junk"
    )
    aborted = RequestRecord(started_ns=1, duration_s=0.1, status=200, aborted=True)
    first, second = export(collector, [failed, aborted])
    assert first.status.code == second.status.code == 2
    assert attributes(first)["error.type"] == "503"
    assert attributes(first)["outrigger.bypass"] == "processor-timeout"
    assert attributes(second)["error.type"] == "aborted"
    assert first.parent_span_id == b""


@pytest.mark.parametrize(
    "environment", [{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}]
)
def test_nothing_without_a_collector(environment: dict[str, str]) -> None:
    """Without an endpoint, or when switched off, there is no sink."""
    sink = spans_from_environment(environment, "s", "w", lambda backend: "", exporter)
    assert sink is None


def test_nothing_is_loaded_without_a_collector() -> None:
    """A process without a collector never loads OpenTelemetry."""
    program = (
        "import sys; from ext_proc.telemetry.traces import spans_from_environment as make;"
        "make({}, 's', 'w', str, dict);"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
