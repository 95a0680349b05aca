"""OpenTelemetry spans → OTLP over gRPC.

Speaks `opentelemetry.proto.collector.trace.v1.TraceService`. OpenTelemetry's own exporter cannot be used:
`xds-protos` installs an old copy of `opentelemetry.proto` over the one that it needs. Both copies agree on
the wire (the field `scope_spans` was called `instrumentation_library_spans`), so this one encodes with
whichever is there. See https://opentelemetry.io/docs/specs/otel/protocol/exporter/ for the variables.

Import this module only where spans are wanted: it loads the OpenTelemetry SDK.
"""

from __future__ import annotations

import json
import math
import re
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
_HEADER: Final = re.compile(r"[a-z0-9_.-]+")
_HEADER_VALUE: Final = re.compile(r"[ -~]*")
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
            ValueError: one of them cannot be used. The message names it; its value may be secret.
        """
        variable, value = _variable(environment, "ENDPOINT")
        try:
            endpoint = urlsplit(value)
        except ValueError:
            raise ValueError(f"{variable} is no URL, such as http://collector:4317") from None
        address = endpoint.netloc or endpoint.path
        if not address or address.startswith("/"):
            raise ValueError(f"{variable} has no host, such as http://collector:4317")
        headers, timeout_s = _headers(environment), _timeout_s(environment)
        options = (("grpc.service_config", json.dumps(_RETRY)),)
        if endpoint.scheme == "https":
            roots = _certificate(environment)
            channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(roots), options)
        else:
            channel = grpc.insecure_channel(address, options)
        return cls(channel, warnings, headers, timeout_s)

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


def _certificate(environment: Mapping[str, str]) -> bytes | None:
    variable, path = _variable(environment, "CERTIFICATE")
    try:
        return Path(path).read_bytes() if path else None
    except OSError as error:
        raise ValueError(f"{variable} cannot be read ({(error.strerror or 'unreadable').lower()})") from error


def _headers(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    variable, value = _variable(environment, "HEADERS")
    pairs = (item.partition("=") for item in value.split(","))
    headers = [(name.strip().lower(), unquote(text.strip())) for name, equals, text in pairs if equals]
    if not all(_HEADER.fullmatch(name) and _HEADER_VALUE.fullmatch(text) for name, text in headers):
        raise ValueError(f"{variable} holds what no header may; write NAME=VALUE,NAME=VALUE")
    return headers


def _timeout_s(environment: Mapping[str, str]) -> float:
    variable, value = _variable(environment, "TIMEOUT")
    if not value:
        return DEFAULT_TIMEOUT_S
    try:
        timeout_s = float(value)
    except ValueError:
        timeout_s = math.nan
    if not 0 < timeout_s < math.inf:
        raise ValueError(f"{variable} is no number of seconds above 0")
    return timeout_s


def _variable(environment: Mapping[str, str], name: str) -> tuple[str, str]:
    """Return which variable says it, and what; the general one and "" where none does."""
    for variable in (f"OTEL_EXPORTER_OTLP_TRACES_{name}", f"OTEL_EXPORTER_OTLP_{name}"):
        if value := environment.get(variable, ""):
            return variable, value
    return f"OTEL_EXPORTER_OTLP_{name}", ""
