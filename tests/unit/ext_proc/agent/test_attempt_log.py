"""What processors hear of attempts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
import structlog
from envoy.data.accesslog.v3 import accesslog_pb2
from envoy.service.accesslog.v3 import als_pb2, als_pb2_grpc

from ext_proc.agent.attempt_log import AttemptLog
from ext_proc.contract import push_pb2
from ext_proc.telemetry.throttle import Throttled


def entry(
    status: int, cluster: str = "openai.0a1b2c3d4e", **headers: str
) -> accesslog_pb2.HTTPAccessLogEntry:
    """Return an entry; underscores in names stand for hyphens."""
    found = accesslog_pb2.HTTPAccessLogEntry()
    found.common_properties.upstream_cluster = cluster
    found.response.response_code.value = status
    found.response.response_headers.update({name.replace("_", "-"): text for name, text in headers.items()})
    return found


def attempt_log() -> AttemptLog:
    """Return a log that warns nobody."""
    return AttemptLog(Throttled(structlog.get_logger(), lambda: 0.0))


def told(*entries: accesslog_pb2.HTTPAccessLogEntry) -> list[push_pb2.Attempt]:
    """Return what is told of `entries`."""
    said: list[push_pb2.Snapshot] = []
    log = attempt_log()
    log.tell = said.append
    for one in entries:
        log.take(one)
    return [one.attempt for one in said]


def test_a_refusal_is_told_with_its_hints() -> None:
    """By the Backend's name; what is for Envoy alone is left out."""
    (attempt,) = told(entry(429, retry_after="3", x_outrigger_retry="1"))
    assert (attempt.backend, attempt.status, dict(attempt.headers)) == ("openai", 429, {"retry-after": "3"})


@pytest.mark.parametrize(
    ("one", "heard"),
    [
        pytest.param(entry(429, x_outrigger_retry="0"), False, id="nothing-to-wait-for"),
        pytest.param(entry(429, x_outrigger_retry="0", retry_after="600"), True, id="longer-than-a-hold"),
        pytest.param(entry(200, x_ratelimit_remaining_requests="0"), True, id="the-last-one-allowed"),
        pytest.param(entry(503, cluster=""), False, id="no-provider"),
    ],
)
def test_who_is_heard_of(one: accesslog_pb2.HTTPAccessLogEntry, heard: bool) -> None:
    """An account that is used up says nothing of load; a long wait does."""
    assert bool(told(one)) is heard


def test_whose_key_it_was_is_told() -> None:
    """By its digest, which is no word of the provider's."""
    (attempt,) = told(entry(429, x_outrigger_key="0123", retry_after="3"))
    assert (attempt.key, dict(attempt.headers)) == ("0123", {"retry-after": "3"})


def test_nobody_is_told_before_there_is_a_way() -> None:
    """It is no error."""
    attempt_log().take(entry(429))


class Lines:
    """A logger that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def warning(self, event: str, **_: Any) -> None:
        """Keep one line."""
        self.events.append(event)


async def test_an_attempt_that_cannot_be_handed_on_costs_no_other(tmp_path: Path) -> None:
    """Over gRPC as Envoy sends them; the one that failed is told to the log."""
    statuses: list[int] = []

    def tell(snapshot: push_pb2.Snapshot) -> None:
        if snapshot.attempt.status == 500:
            raise ValueError("broken")
        statuses.append(snapshot.attempt.status)

    lines = Lines()
    log = AttemptLog(Throttled(lines, lambda: 0.0))
    log.tell = tell
    server = grpc.aio.server()
    log.register(server)
    address = f"unix:{tmp_path}/agent.sock"
    server.add_insecure_port(address)
    await server.start()
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            call = als_pb2_grpc.AccessLogServiceStub(channel).StreamAccessLogs(timeout=5)
            for batch in ([entry(429), entry(500)], [entry(503)]):
                message = als_pb2.StreamAccessLogsMessage()
                message.http_logs.log_entry.extend(batch)
                await call.write(message)
            await call.done_writing()
            await call
    finally:
        await server.stop(0)
    assert statuses == [429, 503]
    assert lines.events == ["an attempt's entry cannot be read"]
