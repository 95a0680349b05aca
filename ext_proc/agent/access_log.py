"""Envoy's access log, sent to the agent: one line a finished request → `RequestRecord` → the sinks.

Speaks `opentelemetry.proto.collector.logs.v1.LogsService`, as its server. Whatever a line holds, those after
it are taken.

The processor's decisions come in the dynamic metadata `outrigger`; the token numbers of an answer that
nobody reads come from Envoy's own filters; whether the processor was passed by comes from Envoy's own record
of its calls. See https://opentelemetry.io/docs/specs/otlp/.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from re import sub
from typing import Any, Final

import grpc

from ext_proc.agent.access_log_format import ABSENT, Line, read_line
from ext_proc.agent.access_log_pb2 import Export
from ext_proc.agent.render.routes import UNDECIDED
from ext_proc.contract.routes import ORIGIN_ROUTE
from ext_proc.contract.telemetry import Call, unpack
from ext_proc.openai.paths import PARSED
from ext_proc.openai.usage import MAX_TOKENS
from ext_proc.telemetry.record import Bypass, RecordSink, RequestRecord
from ext_proc.telemetry.throttle import Throttled

SERVICE: Final = "opentelemetry.proto.collector.logs.v1.LogsService"
METHOD: Final = "Export"
_TAKEN: Final = b""  # an empty ExportLogsServiceResponse
_UNAVAILABLE: Final = str(grpc.StatusCode.UNAVAILABLE.value[0])
_DEADLINE_EXCEEDED: Final = str(grpc.StatusCode.DEADLINE_EXCEEDED.value[0])
# With these an answer that had begun did not come to its end.
_CUTTING_FLAGS: Final = frozenset(
    {
        "upstream-request-timeout",
        "local-reset",
        "upstream-remote-reset",
        "upstream-connection-termination",
        "stream-idle-timeout",
        "upstream-max-stream-duration-reached",
        "duration-timeout",
        "upstream-protocol-error",
        "overload-manager-terminated",
    }
)
_CLIENT_LEFT: Final = frozenset({"downstream-connection-termination", "downstream-remote-reset"})
_CUT_DETAILS: Final = "upstream_reset_after_response_started"
# By the end of the path, as what precedes it is the Backend's once the route has rewritten it; in this order,
# since chat ends like completions.
_OPERATIONS: Final = tuple((path.removeprefix("/v1"), operation.value) for path, operation in PARSED.items())


class AccessLogSink:
    """Hands every finished request to each sink, in order.

    Args:
        sinks: who wants records. One that fails is told to the log and does not keep the others from theirs.
        warnings: where malformed lines and failing sinks are told.
    """

    def __init__(self, sinks: Iterable[RecordSink], warnings: Throttled) -> None:
        self._sinks = tuple(sinks)
        self._warnings = warnings

    def register(self, server: grpc.aio.Server) -> None:
        """Add the service to `server`."""
        export = grpc.unary_unary_rpc_method_handler(self._export, request_deserializer=Export.FromString)
        service = grpc.method_handlers_generic_handler(SERVICE, {METHOD: export})
        server.add_generic_rpc_handlers((service,))

    async def _export(self, message: Export, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        for resource in message.resource_logs:
            for scope in resource.scope_logs:
                for record in scope.log_records:
                    self.take(record.time_unix_nano, record.body.string_value)
        return _TAKEN

    def take(self, started_ns: int, line: bytes) -> None:
        """Hand one request to the sinks: when it began, in nanoseconds since the epoch, and its line."""
        try:
            record = to_record(started_ns, read_line(line.decode("utf-8", "replace")))
        except Exception as error:
            self._warnings.warning("a line of the access log cannot be read", error=error)
            return
        for sink in self._sinks:
            try:
                sink.record(record)
            except Exception as error:
                # A call that is not counted must not cost the calls after it.
                self._warnings.warning("a call was not counted", sink=type(sink).__name__, error=error)


def to_record(started_ns: int, line: Line) -> RequestRecord:
    """Return the record of a finished request.

    Raises:
        ValueError: a number is none.
    """
    call = unpack(line.call)
    flags = _flags(line.flags)
    status = int(line.status)
    own_answer = _text(line.own_answer)
    # The processor's own origin is no provider.
    attempts = int(line.attempts) if line.route != ORIGIN_ROUTE else 0
    bypass = _bypass(line)
    operation = call.operation
    if bypass is not None and not operation:
        operation = _operation(line.path)
    # By place, as naming two dozen fields costs more than all the rest.
    return RequestRecord(
        started_ns,
        _seconds(line),
        status,
        None if line.first_byte_us == ABSENT else int(line.first_byte_us) / 1e6,
        _aborted(status, flags, line.details, bool(own_answer)),
        flags[0] if flags else "",
        attempts,
        bypass,
        own_answer,
        _backend(line, call) if attempts else "",
        operation,
        call.model,
        call.version,
        call.release,
        call.assigned,
        call.cache,
        call.tier,
        call.stream != "",
        _tokens(line.read_input_tokens, line.input_tokens),
        _tokens(line.read_output_tokens, line.output_tokens),
        line.filtered != ABSENT,
        _text(line.traceparent),
        _text(line.request_id),
    )


def _text(field: str) -> str:
    return "" if field == ABSENT else field


@lru_cache(maxsize=256)
def _flags(words: str) -> tuple[str, ...]:
    """Return Envoy's response flags in kebab case."""
    if words == ABSENT:
        return ()
    return tuple(sub(r"(?<!^)(?=[A-Z])", "-", word).lower() for word in words.split(","))


def _seconds(line: Line) -> float:
    return int(line.lasted_ms) / 1e3 if line.whole_us == ABSENT else int(line.whole_us) / 1e6


def _bypass(line: Line) -> Bypass | None:
    failed_open = line.failed_open == "1"
    if not line.route.startswith(UNDECIDED):
        return Bypass.ANSWER_UNREAD if failed_open else None
    # Until the processor decides, every request is on this route; one that it answers itself stays there.
    if not failed_open and line.attempts == "0":
        return None
    statuses = (line.headers_call, line.body_call, line.first_call)
    if _UNAVAILABLE in statuses:
        return Bypass.UNAVAILABLE
    return Bypass.TIMEOUT if _DEADLINE_EXCEEDED in statuses else Bypass.ERROR


def _aborted(status: int, flags: tuple[str, ...], details: str, own_answer: bool) -> bool:
    if status == 0 or not _CLIENT_LEFT.isdisjoint(flags):
        return True
    if own_answer:
        # The provider's answer was still held back when it broke off: the caller got ours, whole.
        return False
    # Before the answer has begun, these end in an answer of Envoy's own, which is whole.
    began = status < 400 or details.startswith(_CUT_DETAILS)
    return began and (details.startswith(_CUT_DETAILS) or not _CUTTING_FLAGS.isdisjoint(flags))


def _backend(line: Line, call: Call) -> str:
    """Return who answered: the stamp of the Backend itself, else the cluster's name without its digest."""
    return _text(line.backend) or line.cluster.rpartition(".")[0] or call.backend


def _operation(path: str) -> str:
    return next((operation for suffix, operation in _OPERATIONS if path.endswith(suffix)), "")


def _tokens(read: str, looked_into: str) -> int | None:
    """Return what the processor has read, else what Envoy has found; None for none, and for no count."""
    text = looked_into if read == ABSENT else read
    if text == ABSENT:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if math.isfinite(value) and 0 < value <= MAX_TOKENS else None
