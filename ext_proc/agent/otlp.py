"""OpenTelemetry spans → OTLP over gRPC.

Speaks `opentelemetry.proto.collector.trace.v1.TraceService`. OpenTelemetry's own exporter cannot be used:
`xds-protos` installs an old copy of `opentelemetry.proto` over the one that it needs. Both copies agree on
the wire (the field `scope_spans` was called `instrumentation_library_spans`), so this one encodes with
whichever is there. See https://opentelemetry.io/docs/specs/otel/protocol/exporter/ for the variables.

Import this module only where spans are wanted: it loads the OpenTelemetry SDK.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote, urlsplit

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.trace.v1 import trace_pb2
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from ext_proc.telemetry.throttle import Throttled

METHOD: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
SCOPE: Final = "outrigger"
DEFAULT_TIMEOUT_S: Final = 10.0
_SCOPED: Final = (
    "scope_spans"
    if "scope_spans" in trace_pb2.ResourceSpans.DESCRIPTOR.fields_by_name
    else "instrumentation_library_spans"
)
_RETRY: Final = {
    "methodConfig": [
        {
            "name": [{}],
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.2s",
                "maxBackoff": "2s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"],
            },
        }
    ]
}


class OtlpExporter(SpanExporter):
    """Sends batches of spans to one collector; a batch that it does not take is lost, which is logged.

    Args:
        channel: to the collector.
        warnings: where lost batches are told; used from the SDK's thread alone.
        headers: sent with every batch, such as a token.
        timeout_s: for one batch, tries included.
    """

    def __init__(
        self,
        channel: grpc.Channel,
        warnings: Throttled,
        headers: Sequence[tuple[str, str]] = (),
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self._channel = channel
        self._warnings = warnings
        self._headers = tuple(headers)
        self._timeout_s = timeout_s
        self._call = channel.unary_unary(
            METHOD,
            request_serializer=trace_service_pb2.ExportTraceServiceRequest.SerializeToString,
            response_deserializer=trace_service_pb2.ExportTraceServiceResponse.FromString,
        )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], warnings: Throttled) -> OtlpExporter:
        """Return the exporter that `OTEL_EXPORTER_OTLP_[TRACES_]…` describe.

        ENDPOINT (`http://` is plain text, `https://` is TLS), HEADERS, TIMEOUT (seconds), CERTIFICATE.

        Raises:
            ValueError: the endpoint has no host, or the time limit is no number.
            OSError: the certificate cannot be read.
        """
        endpoint = urlsplit(_variable(environment, "ENDPOINT"))
        address = endpoint.netloc or endpoint.path
        if not address or address.startswith("/"):
            raise ValueError("OTEL_EXPORTER_OTLP_ENDPOINT has no host, such as http://collector:4317")
        options = (("grpc.service_config", json.dumps(_RETRY)),)
        if endpoint.scheme == "https":
            certificate = _variable(environment, "CERTIFICATE")
            roots = Path(certificate).read_bytes() if certificate else None
            channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(roots), options)
        else:
            channel = grpc.insecure_channel(address, options)
        headers = [
            (name.strip().lower(), unquote(value.strip()))
            for name, equals, value in (
                item.partition("=") for item in _variable(environment, "HEADERS").split(",")
            )
            if equals
        ]
        timeout = _variable(environment, "TIMEOUT")
        return cls(channel, warnings, headers, float(timeout) if timeout else DEFAULT_TIMEOUT_S)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send one batch; blocks (the SDK calls this in a thread of its own)."""
        try:
            self._call(encode(spans), timeout=self._timeout_s, metadata=self._headers)
        except grpc.RpcError as error:
            self._warnings.warning("spans are lost: the collector does not take them", error=error)
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Close the channel."""
        self._channel.close()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing is kept here."""
        return True


def encode(spans: Sequence[ReadableSpan]) -> trace_service_pb2.ExportTraceServiceRequest:
    """Return spans of one resource as one OTLP request."""
    request = trace_service_pb2.ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    if spans:
        resource_spans.resource.attributes.extend(_attributes(spans[0].resource.attributes))
    scoped = getattr(resource_spans, _SCOPED).add()
    # `scope`, formerly `instrumentation_library`: field 1 in both, with the name in its field 1.
    getattr(scoped, "scope" if _SCOPED == "scope_spans" else "instrumentation_library").name = SCOPE
    scoped.spans.extend(_span(span) for span in spans)
    return request


def _span(span: ReadableSpan) -> trace_pb2.Span:
    context, parent = span.get_span_context(), span.parent
    return trace_pb2.Span(
        trace_id=context.trace_id.to_bytes(16, "big") if context else b"",
        span_id=context.span_id.to_bytes(8, "big") if context else b"",
        parent_span_id=parent.span_id.to_bytes(8, "big") if parent else b"",
        name=span.name,
        # The SDK counts the kinds from 0, OTLP from 1.
        kind=cast(Any, span.kind.value + 1),
        start_time_unix_nano=span.start_time or 0,
        end_time_unix_nano=span.end_time or 0,
        attributes=_attributes(span.attributes or {}),
        status=trace_pb2.Status(code=cast(Any, span.status.status_code.value)),
    )


def _attributes(attributes: Mapping[str, Any]) -> list[common_pb2.KeyValue]:
    return [common_pb2.KeyValue(key=name, value=_value(value)) for name, value in attributes.items()]


def _value(value: Any) -> common_pb2.AnyValue:
    if isinstance(value, bool):
        return common_pb2.AnyValue(bool_value=value)
    if isinstance(value, int):
        return common_pb2.AnyValue(int_value=value)
    if isinstance(value, float):
        return common_pb2.AnyValue(double_value=value)
    if isinstance(value, list | tuple):
        return common_pb2.AnyValue(array_value=common_pb2.ArrayValue(values=[_value(item) for item in value]))
    return common_pb2.AnyValue(string_value=str(value))


def _variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or environment.get(
        f"OTEL_EXPORTER_OTLP_{name}", ""
    )
