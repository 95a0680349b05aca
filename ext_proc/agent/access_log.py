"""Envoy's access log, streamed to the agent: one entry a finished request → `RequestRecord` → the sinks.

Speaks `envoy.service.accesslog.v3.AccessLogService`. Whatever an entry holds, the stream goes on: Envoy
would drop entries while it connects again.

The processor's decisions come in the dynamic metadata `outrigger`; the token numbers of a stream that
nobody reads come from Envoy's `sse_to_metadata` filter in `outrigger.stream`; whether the processor was
passed by comes from Envoy's own record of its calls, the filter state of ext_proc. See
https://www.envoyproxy.io/docs/envoy/latest/api-v3/data/accesslog/v3/accesslog.proto.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final, Protocol

import grpc
from envoy.data.accesslog.v3 import accesslog_pb2
from envoy.service.accesslog.v3 import als_pb2, als_pb2_grpc
from google.protobuf import struct_pb2

from ext_proc.agent.bootstrap import ATTEMPTS
from ext_proc.agent.render.routes import UNDECIDED
from ext_proc.contract import headers, telemetry
from ext_proc.contract.routes import ORIGIN_ROUTE
from ext_proc.openai.paths import PARSED
from ext_proc.openai.usage import MAX_TOKENS
from ext_proc.telemetry.record import Bypass, RecordSink, RequestRecord
from ext_proc.telemetry.throttle import Throttled

STREAM_NAMESPACE: Final = "outrigger.stream"
REQUEST_NAMESPACE: Final = "outrigger.request"
REQUEST_ID: Final = "id"
EXT_PROC_STATE: Final = "envoy.filters.http.ext_proc"
# In the serialised Struct: key "failed_open", value { bool_value: true }. Looked for as bytes because
# almost every entry says false, and unpacking it costs as much as all the rest.
_FAILED_OPEN: Final = b"\x0bfailed_open\x12\x02\x20\x01"
_UNAVAILABLE: Final = grpc.StatusCode.UNAVAILABLE.value[0]
_DEADLINE_EXCEEDED: Final = grpc.StatusCode.DEADLINE_EXCEEDED.value[0]
_CALL_STATES: Final = (
    "request_header_call_status",
    "request_body_call_status",
    "grpc_status_before_first_call",
)
# With these an answer that had begun did not come to its end.
_CUTTING_FLAGS: Final = frozenset(
    {
        "upstream_request_timeout",
        "local_reset",
        "upstream_remote_reset",
        "upstream_connection_termination",
        "stream_idle_timeout",
        "upstream_max_stream_duration_reached",
        "duration_timeout",
        "upstream_protocol_error",
        "overload_manager",
    }
)
_CLIENT_LEFT: Final = frozenset({"downstream_connection_termination", "downstream_remote_reset"})
_CUT_DETAILS: Final = "upstream_reset_after_response_started"
# By the end of the path, as what precedes it is the Backend's once the route has rewritten it; in this order,
# since chat ends like completions.
_OPERATIONS: Final = tuple((path.removeprefix("/v1"), operation.value) for path, operation in PARSED.items())


class AttemptSink(Protocol):
    """Who is told of attempts."""

    def take(self, entry: accesslog_pb2.HTTPAccessLogEntry) -> None:
        """Take one entry of the log of attempts."""
        ...


class AccessLogSink(als_pb2_grpc.AccessLogServiceServicer):  # type: ignore[misc]
    """Hands every finished request to each sink, in order.

    Args:
        sinks: who wants records. One that fails is told to the log and does not keep the others from theirs.
        attempts: who wants the entries of the log of attempts.
        warnings: where malformed entries and failing sinks are told.
    """

    def __init__(
        self, sinks: Iterable[RecordSink], warnings: Throttled, attempts: AttemptSink | None = None
    ) -> None:
        self._sinks = tuple(sinks)
        self._attempts = attempts
        self._warnings = warnings

    def register(self, server: grpc.aio.Server) -> None:
        """Add the service to `server`."""
        als_pb2_grpc.add_AccessLogServiceServicer_to_server(self, server)

    async def StreamAccessLogs(
        self,
        request_iterator: AsyncIterator[als_pb2.StreamAccessLogsMessage],
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> als_pb2.StreamAccessLogsResponse:
        """Read entries until Envoy ends the stream."""
        take = self.take
        async for message in request_iterator:
            if message.identifier.log_name == ATTEMPTS:
                take = self.take_attempt
            for entry in message.http_logs.log_entry:
                take(entry)
        return als_pb2.StreamAccessLogsResponse()

    def take_attempt(self, entry: accesslog_pb2.HTTPAccessLogEntry) -> None:
        """Hand on one entry of the log of attempts."""
        if self._attempts is None:
            return
        try:
            self._attempts.take(entry)
        except Exception as error:
            self._warnings.warning("an attempt's entry cannot be read", error=error)

    def take(self, entry: accesslog_pb2.HTTPAccessLogEntry) -> None:
        """Hand one entry to the sinks."""
        try:
            record = to_record(entry)
        except Exception as error:
            self._warnings.warning("an access-log entry cannot be read", error=error)
            return
        if record is None:
            return
        for sink in self._sinks:
            try:
                sink.record(record)
            except Exception as error:
                # A call that is not counted must not cost the calls after it.
                self._warnings.warning("a call was not counted", sink=type(sink).__name__, error=error)


def to_record(entry: accesslog_pb2.HTTPAccessLogEntry) -> RequestRecord | None:
    """Return the record of a finished request; None for an entry about a try or an unfinished request."""
    common, request, response = entry.common_properties, entry.request, entry.response
    if common.access_log_type not in (accesslog_pb2.NotSet, accesslog_pb2.DownstreamEnd):
        return None
    if common.intermediate_log_entry:
        return None
    decided, stream, request_id = _metadata(common)
    flags = [field.name for field, value in common.response_flags.ListFields() if value]
    status = response.response_code.value
    answered = response.response_headers
    own_answer = answered.get(headers.ERROR, "")
    bypass = _bypass(common)
    operation = _name(decided, telemetry.OPERATION)
    if bypass is not None and not operation:
        operation = _operation(request.original_path or request.path)
    input_tokens = _tokens(decided.get(telemetry.INPUT_TOKENS, stream.get(telemetry.INPUT_TOKENS)))
    output_tokens = _tokens(decided.get(telemetry.OUTPUT_TOKENS, stream.get(telemetry.OUTPUT_TOKENS)))
    first_byte = common.time_to_first_downstream_tx_byte
    start = common.start_time
    # The processor's own origin is no provider.
    attempts = common.upstream_request_attempt_count if common.route_name != ORIGIN_ROUTE else 0
    return RequestRecord(
        started_ns=start.seconds * 1_000_000_000 + start.nanos,
        duration_s=_seconds(common.duration) or _seconds(common.time_to_last_downstream_tx_byte),
        first_byte_s=_seconds(first_byte) if common.HasField("time_to_first_downstream_tx_byte") else None,
        status=status,
        aborted=_aborted(status, flags, response.response_code_details, bool(own_answer)),
        failure=flags[0].replace("_", "-") if flags else "",
        attempts=attempts,
        bypass=bypass,
        own_answer=own_answer,
        backend=_backend(common.upstream_cluster, answered, decided) if attempts else "",
        operation=operation,
        model=_name(decided, telemetry.MODEL),
        version=_name(decided, telemetry.VERSION),
        release=_name(decided, telemetry.RELEASE),
        assigned=_name(decided, telemetry.ASSIGNED),
        cache=_name(decided, telemetry.CACHE),
        tier=_name(decided, telemetry.TIER),
        stream=bool(decided.get(telemetry.STREAM, False)),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        estimated=bool(decided.get(telemetry.ESTIMATED, False)),
        filtered=bool(decided.get(telemetry.FILTERED, False)),
        traceparent=request.request_headers["traceparent"] if request.request_headers else "",
        request_id=request_id or request.request_id,
    )


def _metadata(common: accesslog_pb2.AccessLogCommon) -> tuple[dict[str, Any], dict[str, Any], str]:
    decided: dict[str, Any] = {}
    stream: dict[str, Any] = {}
    request_id = ""
    for namespace, struct in common.metadata.filter_metadata.items():
        if namespace == telemetry.NAMESPACE:
            decided = _plain(struct)
        elif namespace == STREAM_NAMESPACE:
            stream = _plain(struct)
        elif namespace == REQUEST_NAMESPACE:
            request_id = str(_plain(struct).get(REQUEST_ID, ""))
    return decided, stream, request_id


def _plain(struct: struct_pb2.Struct) -> dict[str, Any]:
    """Return the texts, numbers and booleans of a Struct; what is empty, zero or anything else is False."""
    # Twice as quick as asking each value for its kind.
    return {
        name: value.string_value or value.number_value or value.bool_value
        for name, value in struct.fields.items()
    }


def _bypass(common: accesslog_pb2.AccessLogCommon) -> Bypass | None:
    undecided = common.route_name.startswith(UNDECIDED)
    state = common.filter_state_objects.get(EXT_PROC_STATE)
    failed_open = state is not None and _FAILED_OPEN in state.value
    if not undecided:
        return Bypass.ANSWER_UNREAD if failed_open else None
    # Until the processor decides, every request is on this route; one that it answers itself stays there.
    if not failed_open and common.upstream_request_attempt_count == 0:
        return None
    if state is None:
        return Bypass.ERROR
    calls = struct_pb2.Struct()
    state.Unpack(calls)
    statuses = {int(calls.fields[name].number_value) for name in _CALL_STATES if name in calls.fields}
    if _UNAVAILABLE in statuses:
        return Bypass.UNAVAILABLE
    return Bypass.TIMEOUT if _DEADLINE_EXCEEDED in statuses else Bypass.ERROR


def _aborted(status: int, flags: list[str], details: str, own_answer: bool) -> bool:
    if status == 0 or not _CLIENT_LEFT.isdisjoint(flags):
        return True
    if own_answer:
        # The provider's answer was still held back when it broke off: the caller got ours, whole.
        return False
    # Before the answer has begun, these end in an answer of Envoy's own, which is whole.
    began = status < 400 or details.startswith(_CUT_DETAILS)
    return began and (details.startswith(_CUT_DETAILS) or not _CUTTING_FLAGS.isdisjoint(flags))


def _backend(cluster: str, answered: Any, decided: dict[str, Any]) -> str:
    """Return who answered: the stamp of the Backend itself, else the cluster's name without its digest."""
    if headers.BACKEND in answered:
        return str(answered[headers.BACKEND])
    return cluster.rpartition(".")[0] or str(decided.get(telemetry.BACKEND, ""))


def _operation(path: str) -> str:
    path = path.partition("?")[0]
    return next((operation for suffix, operation in _OPERATIONS if path.endswith(suffix)), "")


def _name(decided: dict[str, Any], field: str) -> str:
    value = decided.get(field)
    return value if isinstance(value, str) else ""


def _tokens(value: object) -> int | None:
    if not isinstance(value, float) or not math.isfinite(value) or not 0 <= value <= MAX_TOKENS:
        return None
    return int(value)


def _seconds(duration: Any) -> float:
    return float(duration.seconds + duration.nanos / 1e9)
