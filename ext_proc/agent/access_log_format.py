"""The line that Envoy's access log has of a finished request: how it is written, and taken apart (pure).

One text that Envoy puts together, since its own message of a request costs it, and whoever reads it, many
times as much. Loads no protobuf: the bootstrap is written by a process that has none. See
https://www.envoyproxy.io/docs/envoy/latest/configuration/advanced/substitution_formatter.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ext_proc.contract import headers, telemetry

# Envoy lets no caller and no provider send it, and no configured name has it.
SEPARATOR: Final = "\x1f"
ABSENT: Final = "-"
STREAM_NAMESPACE: Final = "outrigger.stream"
REQUEST_NAMESPACE: Final = "outrigger.request"
EXT_PROC_STATE: Final = "envoy.filters.http.ext_proc"


class Line(NamedTuple):
    """One finished request. `-` stands for what there is none of.

    Attributes:
        whole_us: microseconds to the answer's last byte; absent when it has not come to that.
        lasted_ms: milliseconds to the end of all.
        first_byte_us: microseconds to the answer's first byte.
        status: 0 when none was sent.
        flags: Envoy's response flags, in words without spaces, with commas between them.
        details: Envoy's response code details.
        attempts: tries upstream.
        backend: the stamp of the Backend that answered.
        own_answer: `x-outrigger-error`.
        path: as it went upstream, or as the caller wrote it where nothing did; without the query.
        read_input_tokens: of an answer that the processor has read, or of its own.
        input_tokens: of an answer that Envoy has looked into.
        failed_open: 1 when a call to the processor failed.
        headers_call: gRPC status of the call to the processor about the request's headers.
        body_call: the same, about the body.
        first_call: the same, before there was a first message.
        call: what the processor said of the call, see `telemetry.unpack`.
    """

    whole_us: str
    lasted_ms: str
    first_byte_us: str
    status: str
    flags: str
    details: str
    attempts: str
    route: str
    cluster: str
    backend: str
    own_answer: str
    traceparent: str
    path: str
    request_id: str
    read_input_tokens: str
    read_output_tokens: str
    input_tokens: str
    output_tokens: str
    filtered: str
    failed_open: str
    headers_call: str
    body_call: str
    first_call: str
    call: str


def _told(field: str, namespace: str = telemetry.NAMESPACE) -> str:
    return f"%DYNAMIC_METADATA({namespace}:{field})%"


def _state(field: str) -> str:
    return f"%FILTER_STATE({EXT_PROC_STATE}:FIELD:{field})%"


OPERATORS: Final = Line(
    whole_us="%COMMON_DURATION(DS_RX_BEG:DS_TX_END:us)%",
    lasted_ms="%DURATION%",
    first_byte_us="%COMMON_DURATION(DS_RX_BEG:DS_TX_BEG:us)%",
    status="%RESPONSE_CODE%",
    flags="%RESPONSE_FLAGS_LONG%",
    details="%RESPONSE_CODE_DETAILS%",
    attempts="%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
    route="%ROUTE_NAME%",
    cluster="%UPSTREAM_CLUSTER_RAW%",
    backend=f"%RESP({headers.BACKEND})%",
    own_answer=f"%RESP({headers.ERROR})%",
    traceparent="%REQ(traceparent)%",
    path="%PATH(NQ:PATH)%",
    request_id=_told("id", REQUEST_NAMESPACE),
    read_input_tokens=_told(telemetry.INPUT_TOKENS),
    read_output_tokens=_told(telemetry.OUTPUT_TOKENS),
    input_tokens=_told(telemetry.INPUT_TOKENS, STREAM_NAMESPACE),
    output_tokens=_told(telemetry.OUTPUT_TOKENS, STREAM_NAMESPACE),
    filtered=_told(telemetry.FILTERED),
    failed_open=_state("failed_open"),
    headers_call=_state("request_header_call_status"),
    body_call=_state("request_body_call_status"),
    first_call=_state("grpc_status_before_first_call"),
    call=_told(telemetry.CALL),
)
"""Envoy's operator for each field."""


def line_format() -> str:
    """Return the line as Envoy is told to write it."""
    return SEPARATOR.join(OPERATORS)


def read_line(text: str) -> Line:
    """Take a line apart.

    Raises:
        ValueError: it is not of this format.
    """
    fields = text.split(SEPARATOR)
    if len(fields) != len(OPERATORS):
        raise ValueError(f"a line of the access log has {len(fields)} fields, not {len(OPERATORS)}")
    return Line._make(fields)
