"""What the agent makes of the access log: `/metrics` over real HTTP, entries over real gRPC."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import structlog
from structlog.testing import capture_logs

from ext_proc.agent.access_log import METHOD, SERVICE
from ext_proc.agent.access_log_format import ABSENT, SEPARATOR, Line
from ext_proc.agent.access_log_pb2 import Export, LogRecord, ResourceLogs, ScopeLogs, Text
from ext_proc.agent.observation import Observation
from ext_proc.contract.snapshot import Backend, Snapshot
from ext_proc.settings import Address, AgentSettings, RunDir, SettingsError


def observation(
    folder: Path,
    port: int = 0,
    environment: Mapping[str, str] | None = None,
    now: Callable[[], float] = time.monotonic,
) -> Observation:
    """Return an observation that serves on `port`."""
    settings = AgentSettings(
        run_dir=RunDir(folder),
        data_dir=folder,
        control_plane="unix:/none",
        workload="w",
        sidecar_id="s",
        workers=1,
        metrics_address=Address("127.0.0.1", port),
        envoy_admin_address=Address("127.0.0.1", 1),
    )
    log = structlog.get_logger()
    return Observation(settings, environment or {}, ["unknown-model"], now, log, epoch="e")


async def scrape(port: int) -> str:
    """Return what `/metrics` says."""
    async with httpx.AsyncClient(trust_env=False) as client:
        return (await client.get(f"http://127.0.0.1:{port}/metrics")).text


async def test_logged_request_is_counted_once(tmp_path: Path) -> None:
    """A line that Envoy sends moves one series, under the names of the policy in force."""
    watching = observation(tmp_path)
    watching.use(Snapshot("1", backends={"main": Backend("main", "http://h/v1")}))
    server = grpc.aio.server()
    watching.register(server)
    server.add_insecure_port(f"unix:{tmp_path}/agent.sock")
    await server.start()
    fields = {"lasted_ms": "1", "status": "200", "attempts": "2", "backend": "main"}
    line = SEPARATOR.join(Line(*([ABSENT] * len(Line._fields)))._replace(**fields)).encode()
    records = [LogRecord(body=Text(string_value=line))]
    message = Export(resource_logs=[ResourceLogs(scope_logs=[ScopeLogs(log_records=records)])])
    async with grpc.aio.insecure_channel(f"unix:{tmp_path}/agent.sock") as channel:
        export: Any = channel.unary_unary(f"/{SERVICE}/{METHOD}", request_serializer=Export.SerializeToString)
        await export(message, timeout=5)
    text = await scrape(watching.port)
    await server.stop(0)
    watching.close()
    assert 'openai_request_total{status="200"} 1.0' in text
    assert 'outrigger_upstream_attempts_total{backend="main"} 2.0' in text


async def test_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    """A metrics port that is taken is an error that says what to do."""
    first = observation(tmp_path)
    with pytest.raises(SettingsError, match="another metrics port"):
        observation(tmp_path, first.port)
    first.close()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EXPORTER_OTLP_ENDPOINT", "http://"),
        ("EXPORTER_OTLP_ENDPOINT", "http://["),
        ("EXPORTER_OTLP_CERTIFICATE", "/no/such.pem"),
        ("EXPORTER_OTLP_TIMEOUT", "soon"),
        ("EXPORTER_OTLP_TRACES_TIMEOUT", "nan"),
        ("EXPORTER_OTLP_TIMEOUT", "0"),
        ("EXPORTER_OTLP_HEADERS", "a key=secret"),
        ("EXPORTER_OTLP_HEADERS", "x-key=%0Asecret"),
        ("BSP_SCHEDULE_DELAY", "-1"),
        ("SPAN_ATTRIBUTE_COUNT_LIMIT", "many"),
    ],
)
async def test_a_variable_that_cannot_be_used_costs_the_traces_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """One warning that names it, and no secret; metrics are served on."""
    monkeypatch.setenv(f"OTEL_{name}", value)  # some are read by the SDK itself
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://127.0.0.1:1", f"OTEL_{name}": value}
    with capture_logs() as logs:
        watching = observation(tmp_path, environment=environment)
    assert "openai_request" in await scrape(watching.port)
    watching.close()
    (line,) = logs
    assert "no traces are sent" in line["event"]
    assert f"OTEL_{name}" in f"{line['error']} {line['given']}"
    assert "secret" not in str(line)


async def test_the_kubelet_is_told_when_calls_are_governed(tmp_path: Path) -> None:
    """Once every socket is there and once a policy serves; without one, once that has been waited for."""
    times = [0.0]
    watching = observation(tmp_path, now=lambda: times[0])
    async with httpx.AsyncClient(trust_env=False, base_url=f"http://127.0.0.1:{watching.port}") as client:

        async def status(path: str) -> int:
            return (await client.get(path)).status_code

        assert [await status(path) for path in ("/healthz", "/startupz", "/readyz")] == [200, 503, 503]
        for name in ("agent.sock", "processor-0.sock"):
            (tmp_path / name).touch()
        assert [await status(path) for path in ("/startupz", "/readyz")] == [200, 503]
        watching.tell_service(lambda: True)
        assert await status("/readyz") == 200
        watching.tell_service(lambda: False)
        times[0] = 41.0
        assert await status("/readyz") == 200
    watching.close()
