"""Lines of Envoy's access log → records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.agent.access_log import METHOD, SERVICE, AccessLogSink, to_record
from ext_proc.agent.access_log_format import ABSENT, SEPARATOR, Line
from ext_proc.agent.access_log_pb2 import Export, LogRecord, ResourceLogs, ScopeLogs, Text
from ext_proc.agent.render.routes import render_routes
from ext_proc.contract.snapshot import Backend, Snapshot
from ext_proc.contract.telemetry import pack
from ext_proc.telemetry.record import Bypass, RequestRecord
from ext_proc.telemetry.throttle import Throttled
from tests.unit.ext_proc.agent.render.examples import routes_in

STARTED = 1_700_000_000_123_456_789


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


DECIDED = Line(*([ABSENT] * len(Line._fields)))._replace(
    whole_us="500000",
    lasted_ms="501",
    first_byte_us="200000",
    status="200",
    details="via_upstream",
    attempts="1",
    route="open.ai.json.0a1b2c3d4e",
    cluster="open.ai.0a1b2c3d4e",
    path="/v1/chat/completions",
    request_id="req-1",
    failed_open="0",
)
"""A line as Envoy writes it for a decided call with status 200."""


def line_of(**fields: str) -> Line:
    """Return a decided chat's line with other fields."""
    return DECIDED._replace(call=told(operation="chat"))._replace(**fields)


def told(**fields: str) -> str:
    """Return what the processor says of a call."""
    return pack(fields.items())


def recorded(line: Line) -> RequestRecord:
    """Return the record of a line."""
    return to_record(STARTED, line)


def test_decided_chat() -> None:
    """What the processor said and what Envoy measured come together in one record."""
    said = told(
        model="gpt-4o",
        version="stable",
        release="canary",
        assigned="next",
        operation="chat",
        cache="miss",
        tier="gold",
        stream="True",
    )
    line = DECIDED._replace(
        call=said, read_input_tokens="12", read_output_tokens="40", filtered="1", traceparent="00-a-b-01"
    )
    assert recorded(line) == RequestRecord(
        started_ns=STARTED,
        duration_s=0.5,
        first_byte_s=0.2,
        status=200,
        attempts=1,
        backend="open.ai",
        operation="chat",
        model="gpt-4o",
        version="stable",
        release="canary",
        assigned="next",
        cache="miss",
        tier="gold",
        stream=True,
        input_tokens=12,
        output_tokens=40,
        filtered=True,
        traceparent="00-a-b-01",
        request_id="req-1",
    )


def test_a_call_that_nobody_waited_for_lasted_as_long_as_it_did() -> None:
    """Without a last byte the end of all counts."""
    line = line_of(whole_us=ABSENT, first_byte_us=ABSENT, status="0", flags="DownstreamConnectionTermination")
    record = recorded(line)
    assert (record.duration_s, record.first_byte_s, record.aborted) == (0.501, None, True)


def test_tokens_of_an_unread_stream() -> None:
    """Envoy's own reading of the stream gives the tokens when the processor gave none."""
    record = recorded(line_of(input_tokens="11", output_tokens="1000"))
    assert (record.input_tokens, record.output_tokens) == (11, 1000)
    read = recorded(line_of(input_tokens="11", read_input_tokens="12.0"))
    assert read.input_tokens == 12


@pytest.mark.parametrize("value", ["-1", "0", "1e300", "Infinity", "NaN", "true", "", "x", "null", '{"a":1}'])
def test_impossible_token_numbers_are_none(value: str) -> None:
    """What a provider cannot mean as a number of tokens is not counted, nor are none at all."""
    assert recorded(line_of(input_tokens=value)).input_tokens is None


def test_backend_that_really_answered() -> None:
    """The stamp that the answering Backend's cluster leaves beats the name of the first cluster."""
    assert recorded(line_of(call=told(backend="first"), backend="second")).backend == "second"


def test_a_call_that_met_no_cluster_was_for_the_backend_it_was_sent_to() -> None:
    """As the processor said."""
    assert recorded(line_of(call=told(backend="first"), cluster=ABSENT)).backend == "first"


def test_follower_of_another_call_has_no_try() -> None:
    """What it reads comes from the processor's own origin, and was bought by the leader."""
    line = line_of(
        call=told(operation="chat", cache="coalesced", backend="b"),
        route="origin",
        cluster="outrigger_origin_0",
        backend="b",
    )
    record = recorded(line)
    assert (record.attempts, record.backend, record.cache) == (0, "", "coalesced")


def test_answer_of_our_own_has_no_backend() -> None:
    """Without an attempt nothing went to a Backend, whatever the route was."""
    record = recorded(line_of(call=told(backend="first"), attempts="0", own_answer="unknown-model"))
    assert (record.backend, record.own_answer) == ("", "unknown-model")


@pytest.mark.parametrize(
    ("fields", "bypass"),
    [
        ({"headers_call": "14"}, Bypass.UNAVAILABLE),
        ({"body_call": "4", "headers_call": "0"}, Bypass.TIMEOUT),
        ({"body_call": "2"}, Bypass.ERROR),
        ({"first_call": "14"}, Bypass.UNAVAILABLE),
    ],
)
def test_bypassed_call(fields: dict[str, str], bypass: Bypass) -> None:
    """A call on an undecided route went by the processor; the status of its call says why."""
    record = recorded(line_of(call=ABSENT, route="undecided-consumer", failed_open="1", **fields))
    assert (record.bypass, record.operation) == (bypass, "chat")


def test_bypass_without_state_is_an_error() -> None:
    """An undecided route without a word from the filter still counts."""
    assert recorded(line_of(route="undecided", failed_open=ABSENT)).bypass is Bypass.ERROR


def test_answer_of_the_processor_is_no_bypass() -> None:
    """A cache hit or a refusal stays on the undecided route, and went by nobody."""
    assert recorded(line_of(route="undecided", attempts="0")).bypass is None


def test_answer_that_nobody_read() -> None:
    """A processor that died after its decision leaves the answer unread."""
    assert recorded(line_of(failed_open="1")).bypass is Bypass.ANSWER_UNREAD


def test_rendered_routes_are_the_ones_looked_for() -> None:
    """The routes that the agent renders for undecided requests carry the name by which they are counted."""
    backend = Backend("b", "http://127.0.0.1:1")
    routes = render_routes([Snapshot("v", default_backend="b", backends={"b": backend})])
    names = list(routes_in(routes))
    assert {"undecided", "undecided-raw"} <= set(names)
    assert not any(name.startswith("undecided") for name in names if name.startswith("b."))


@pytest.mark.parametrize(
    ("status", "flags", "details", "aborted"),
    [
        (200, ABSENT, "via_upstream", False),
        (0, "DownstreamConnectionTermination", "downstream_remote_disconnect", True),
        (200, "DownstreamConnectionTermination", "via_upstream", True),
        (200, "DownstreamRemoteReset", "via_upstream", True),
        (200, "UpstreamProtocolError", "upstream_reset_after_response_started{protocol_error}", True),
        (200, "StreamIdleTimeout", "stream_idle_timeout", True),
        (200, "OverloadManagerTerminated", "via_upstream", True),
        (0, ABSENT, "", True),
        (503, "UpstreamConnectionFailure,UpstreamRetryLimitExceeded", "upstream_reset_before_x", False),
        (504, "UpstreamRequestTimeout", "upstream_response_timeout", False),
        (429, "UpstreamRetryLimitExceeded", "via_upstream", False),
        (500, "UpstreamRemoteReset", "upstream_reset_after_response_started{x}", True),
    ],
)
def test_aborted(status: int, flags: str, details: str, aborted: bool) -> None:
    """An answer that did not come to its end is aborted; an error that came whole is not."""
    record = recorded(line_of(status=str(status), flags=flags, details=details))
    assert record.aborted is aborted


def test_a_failure_has_the_name_of_envoys_first_flag() -> None:
    """In kebab case."""
    record = recorded(line_of(flags="UpstreamConnectionFailure,UpstreamRetryLimitExceeded"))
    assert record.failure == "upstream-connection-failure"


@pytest.mark.parametrize(
    ("flag", "aborted"), [("UpstreamRemoteReset", False), ("DownstreamConnectionTermination", True)]
)
def test_our_own_answer_in_place_of_a_broken_one_is_whole(flag: str, aborted: bool) -> None:
    """A JSON answer that broke off while it was held back is the 502 that the caller got, if it stayed."""
    details = "upstream_reset_after_response_started{connection_termination}"
    line = line_of(status="502", details=details, own_answer="upstream-reset", flags=flag)
    assert recorded(line).aborted is aborted


@given(st.lists(st.text(max_size=12), min_size=20, max_size=26), st.binary(max_size=30))
def test_no_line_stops_the_sink(fields: list[str], junk: bytes) -> None:
    """Whatever comes is counted or told, without an error."""
    lines, kept = Lines(), Kept()
    sink = AccessLogSink([kept], Throttled(lines, lambda: 0.0, interval_s=0))
    sink.take(STARTED, SEPARATOR.join(fields).encode())
    sink.take(STARTED, junk)
    sink.take(STARTED, SEPARATOR.join(DECIDED).encode())
    assert kept.records
    assert len(kept.records) + len(lines.events) == 3


def test_a_header_that_is_no_text_costs_no_count() -> None:
    """Envoy passes callers' bytes on as they came."""
    kept = Kept()
    sink = AccessLogSink([kept], Throttled(Lines(), lambda: 0.0))
    sink.take(STARTED, SEPARATOR.join(line_of(traceparent="\udcff\udcfe")).encode("utf-8", "surrogateescape"))
    assert [record.status for record in kept.records] == [200]


def test_failing_sink_keeps_nobody_from_theirs() -> None:
    """A sink that fails is told once; the others get every record."""
    kept, lines = Kept(), Lines()
    sink = AccessLogSink([Broken(), kept], Throttled(lines, lambda: 0.0))
    for _ in range(3):
        sink.take(STARTED, SEPARATOR.join(DECIDED).encode())
    assert len(kept.records) == 3
    assert lines.events == ["a call was not counted"]


async def test_lines_over_grpc(tmp_path: Path) -> None:
    """Lines sent as Envoy sends them reach the sinks, and are acknowledged."""
    kept = Kept()
    server = grpc.aio.server()
    AccessLogSink([kept], Throttled(Lines(), lambda: 0.0)).register(server)
    address = f"unix:{tmp_path / 'agent.sock'}"
    server.add_insecure_port(address)
    await server.start()
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            export: Any = channel.unary_unary(
                f"/{SERVICE}/{METHOD}", request_serializer=Export.SerializeToString
            )
            for _ in range(2):
                assert await export(export_of(DECIDED, line_of()), timeout=5) == b""
    finally:
        await server.stop(0)
    assert [record.operation for record in kept.records] == ["", "chat", "", "chat"]


def export_of(*lines: Line) -> Export:
    """Return the message that carries `lines`."""
    records = [
        LogRecord(time_unix_nano=STARTED, body=Text(string_value=SEPARATOR.join(line).encode()))
        for line in lines
    ]
    return Export(resource_logs=[ResourceLogs(scope_logs=[ScopeLogs(log_records=records)])])
