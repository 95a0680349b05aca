from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
from envoy.data.accesslog.v3 import accesslog_pb2
from envoy.service.accesslog.v3 import als_pb2, als_pb2_grpc
from google.protobuf import struct_pb2
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.agent.access_log import AccessLogSink, to_record
from ext_proc.agent.render.routes import render_routes
from ext_proc.contract.snapshot import Backend, Snapshot
from ext_proc.telemetry.record import Bypass, RequestRecord
from ext_proc.telemetry.throttle import Throttled


class Lines:
    """A logger that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def warning(self, event: str, **fields: Any) -> None:
        """Keep one line."""
        self.events.append(event)


class Kept:
    """A sink that keeps records."""

    def __init__(self) -> None:
        self.records: list[RequestRecord] = []

    def record(self, record: RequestRecord) -> None:
        """Keep one."""
        self.records.append(record)


class Broken:
    """A sink that fails."""

    def record(self, record: RequestRecord) -> None:
        """Fail."""
        raise RuntimeError("full")


def entry_of(**metadata: Any) -> accesslog_pb2.HTTPAccessLogEntry:
    """Return an entry as Envoy writes it for a decided chat with status 200."""
    entry = accesslog_pb2.HTTPAccessLogEntry()
    common = entry.common_properties
    common.access_log_type = accesslog_pb2.DownstreamEnd
    common.start_time.FromNanoseconds(1_700_000_000_123_456_789)
    common.duration.FromMilliseconds(500)
    common.time_to_first_downstream_tx_byte.FromMilliseconds(200)
    common.upstream_cluster = "open.ai.0a1b2c3d4e"
    common.upstream_request_attempt_count = 1
    common.route_name = "open.ai.json.0a1b2c3d4e"
    common.metadata.filter_metadata["outrigger"].update(metadata)
    common.metadata.filter_metadata["outrigger.request"].update({"id": "req-1"})
    state(entry, failed_open=False)
    entry.request.path = "/openai/v1/chat/completions?x=1"
    entry.response.response_code.value = 200
    return entry


def state(entry: accesslog_pb2.HTTPAccessLogEntry, **fields: Any) -> None:
    """Set the filter state that Envoy's ext_proc filter leaves behind."""
    struct = struct_pb2.Struct()
    struct.update(fields)
    entry.common_properties.filter_state_objects["envoy.filters.http.ext_proc"].Pack(struct)


def recorded(entry: accesslog_pb2.HTTPAccessLogEntry) -> RequestRecord:
    """Return the record of an entry that must have one."""
    record = to_record(entry)
    assert record is not None
    return record


def test_decided_chat() -> None:
    """What the processor said and what Envoy measured come together in one record."""
    entry = entry_of(
        model="gpt-4o",
        version="stable",
        operation="chat",
        cache="miss",
        tier="gold",
        stream=True,
        input_tokens=12.0,
        output_tokens=40.0,
        filtered=1.0,
    )
    entry.request.request_headers["traceparent"] = "00-a-b-01"
    assert recorded(entry) == RequestRecord(
        started_ns=1_700_000_000_123_456_789,
        duration_s=0.5,
        first_byte_s=0.2,
        status=200,
        attempts=1,
        backend="open.ai",
        operation="chat",
        model="gpt-4o",
        version="stable",
        cache="miss",
        tier="gold",
        stream=True,
        input_tokens=12,
        output_tokens=40,
        filtered=True,
        traceparent="00-a-b-01",
        request_id="req-1",
    )


def test_tokens_of_an_unread_stream() -> None:
    """Envoy's own reading of the stream gives the tokens when the processor gave none."""
    entry = entry_of(operation="chat")
    stream = entry.common_properties.metadata.filter_metadata["outrigger.stream"]
    stream.update({"input_tokens": 11, "output_tokens": 1000})
    record = recorded(entry)
    assert (record.input_tokens, record.output_tokens) == (11, 1000)


@pytest.mark.parametrize("value", [-1, 1e300, float("inf"), float("nan"), "12", True, None])
def test_impossible_token_numbers_are_none(value: Any) -> None:
    """What a provider cannot mean as a number of tokens is not counted."""
    assert recorded(entry_of(input_tokens=value)).input_tokens is None


def test_backend_that_really_answered() -> None:
    """The stamp that the answering Backend's cluster leaves beats the name of the first cluster."""
    entry = entry_of(backend="first")
    entry.response.response_headers["x-outrigger-backend"] = "second"
    assert recorded(entry).backend == "second"


def test_follower_of_another_call_has_no_try() -> None:
    """What it reads comes from the processor's own origin, and was bought by the leader."""
    entry = entry_of(operation="chat", cache="coalesced", backend="b")
    entry.common_properties.route_name = "origin"
    entry.common_properties.upstream_cluster = "outrigger_origin_0"
    entry.response.response_headers["x-outrigger-backend"] = "b"
    record = recorded(entry)
    assert (record.attempts, record.backend, record.cache) == (0, "", "coalesced")


def test_answer_of_our_own_has_no_backend() -> None:
    """Without an attempt nothing went to a Backend, whatever the route was."""
    entry = entry_of(backend="first")
    entry.common_properties.upstream_request_attempt_count = 0
    entry.response.response_headers["x-outrigger-error"] = "unknown-model"
    record = recorded(entry)
    assert (record.backend, record.own_answer) == ("", "unknown-model")


@pytest.mark.parametrize(
    ("fields", "bypass"),
    [
        ({"failed_open": True, "request_header_call_status": 14}, Bypass.UNAVAILABLE),
        ({"failed_open": True, "request_body_call_status": 4}, Bypass.TIMEOUT),
        ({"failed_open": True, "request_body_call_status": 2}, Bypass.ERROR),
    ],
)
def test_bypassed_call(fields: dict[str, Any], bypass: Bypass) -> None:
    """A call on an undecided route went by the processor; the status of its call says why."""
    entry = entry_of()
    entry.common_properties.route_name = "undecided-consumer"
    state(entry, **fields)
    record = recorded(entry)
    assert (record.bypass, record.operation) == (bypass, "chat")


def test_bypass_without_state_is_an_error() -> None:
    """An undecided route without a word from the filter still counts."""
    entry = entry_of()
    entry.common_properties.route_name = "undecided"
    entry.common_properties.filter_state_objects.clear()
    assert recorded(entry).bypass is Bypass.ERROR


def test_answer_of_the_processor_is_no_bypass() -> None:
    """A cache hit or a refusal stays on the undecided route, and went by nobody."""
    entry = entry_of(operation="chat", cache="hit")
    entry.common_properties.route_name = "undecided"
    entry.common_properties.upstream_request_attempt_count = 0
    assert recorded(entry).bypass is None


def test_answer_that_nobody_read() -> None:
    """A processor that died after its decision leaves the answer unread."""
    entry = entry_of(operation="chat")
    state(entry, failed_open=True, response_header_call_status=14)
    assert recorded(entry).bypass is Bypass.ANSWER_UNREAD


def test_rendered_routes_are_the_ones_looked_for() -> None:
    """The routes that the agent renders for undecided requests carry the name by which they are counted."""
    backend = Backend("b", "http://127.0.0.1:1")
    routes = render_routes([Snapshot("v", default_backend="b", backends={"b": backend})])
    names = [route.get("name", "") for route in routes["virtual_hosts"][0]["routes"]]
    assert {"undecided", "undecided-raw"} <= set(names)
    assert not any(name.startswith("undecided") for name in names if name.startswith("b."))


@pytest.mark.parametrize(
    ("status", "flags", "details", "aborted"),
    [
        (200, [], "via_upstream", False),
        (0, ["downstream_connection_termination"], "downstream_remote_disconnect", True),
        (200, ["downstream_connection_termination"], "via_upstream", True),
        (200, ["downstream_remote_reset"], "via_upstream", True),
        (200, ["upstream_protocol_error"], "upstream_reset_after_response_started{protocol_error}", True),
        (200, ["stream_idle_timeout"], "stream_idle_timeout", True),
        (0, [], "", True),
        (503, ["upstream_connection_failure"], "upstream_reset_before_response_started{x}", False),
        (504, ["upstream_request_timeout"], "upstream_response_timeout", False),
        (429, ["upstream_retry_limit_exceeded"], "via_upstream", False),
        (500, ["upstream_remote_reset"], "upstream_reset_after_response_started{x}", True),
    ],
)
def test_aborted(status: int, flags: list[str], details: str, aborted: bool) -> None:
    """An answer that did not come to its end is aborted; an error that came whole is not."""
    entry = entry_of()
    entry.response.response_code.value = status
    entry.response.response_code_details = details
    for flag in flags:
        setattr(entry.common_properties.response_flags, flag, True)
    record = recorded(entry)
    assert record.aborted is aborted
    assert record.failure == (flags[0].replace("_", "-") if flags else "")


@pytest.mark.parametrize(
    ("flag", "aborted"), [("upstream_remote_reset", False), ("downstream_connection_termination", True)]
)
def test_our_own_answer_in_place_of_a_broken_one_is_whole(flag: str, aborted: bool) -> None:
    """A JSON answer that broke off while it was held back is the 502 that the caller got, if it stayed."""
    entry = entry_of()
    entry.response.response_code.value = 502
    entry.response.response_code_details = "upstream_reset_after_response_started{connection_termination}"
    entry.response.response_headers["x-outrigger-error"] = "upstream-reset"
    setattr(entry.common_properties.response_flags, flag, True)
    assert recorded(entry).aborted is aborted


@pytest.mark.parametrize("kind", [accesslog_pb2.DownstreamPeriodic, accesslog_pb2.UpstreamEnd])
def test_only_finished_requests_count(kind: int) -> None:
    """Entries about tries or about requests still on their way are not calls."""
    entry = entry_of()
    entry.common_properties.access_log_type = kind
    assert to_record(entry) is None


@given(st.binary(max_size=300))
def test_no_entry_stops_the_sink(content: bytes) -> None:
    """Whatever can be parsed as an entry is taken without an error."""
    entry = accesslog_pb2.HTTPAccessLogEntry()
    try:
        entry.ParseFromString(content)
    except Exception:
        return
    AccessLogSink([Kept()], Throttled(Lines(), lambda: 0.0)).take(entry)


def test_failing_sink_keeps_nobody_from_theirs() -> None:
    """A sink that fails is told once; the others get every record."""
    kept, lines = Kept(), Lines()
    sink = AccessLogSink([Broken(), kept], Throttled(lines, lambda: 0.0))
    for _ in range(3):
        sink.take(entry_of())
    assert len(kept.records) == 3
    assert lines.events == ["a call was not counted"]


async def test_stream_of_entries(tmp_path: Path) -> None:
    """Entries sent over a real gRPC stream reach the sinks."""
    kept = Kept()
    server = grpc.aio.server()
    AccessLogSink([kept], Throttled(Lines(), lambda: 0.0)).register(server)
    address = f"unix:{tmp_path / 'agent.sock'}"
    server.add_insecure_port(address)
    await server.start()
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            call = als_pb2_grpc.AccessLogServiceStub(channel).StreamAccessLogs()
            for _ in range(2):
                message = als_pb2.StreamAccessLogsMessage()
                message.http_logs.log_entry.extend([entry_of(), entry_of()])
                await call.write(message)
            await call.done_writing()
            await call
    finally:
        await server.stop(0)
    assert len(kept.records) == 4
