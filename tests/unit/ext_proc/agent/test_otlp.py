from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.sdk.trace.export import SpanExportResult

from ext_proc.agent.otlp import OtlpExporter, encode
from ext_proc.telemetry.throttle import Throttled


class Lines:
    """A log that keeps its events."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def warning(self, event: str, **_: Any) -> None:
        """Keep one."""
        self.events.append(event)


def throttled(lines: Lines | None = None) -> Throttled:
    """Return where warnings go."""
    return Throttled(lines or Lines(), lambda: 0.0)


def test_absent_collector_loses_the_batch_and_says_so() -> None:
    """A collector that is not there is a failure to the SDK and one line in the log, not an exception."""
    lines = Lines()
    exporter = OtlpExporter(grpc.insecure_channel("127.0.0.1:1"), throttled(lines), timeout_s=0.2)
    assert [exporter.export([]), exporter.export([])] == [SpanExportResult.FAILURE] * 2
    exporter.shutdown()
    assert len(lines.events) == 1
    assert "spans are lost" in lines.events[0]


@pytest.mark.parametrize("endpoint", ["", "http://", "/v1/traces"])
def test_endpoint_without_a_host_is_refused(endpoint: str) -> None:
    """The error says what an endpoint looks like."""
    with pytest.raises(ValueError, match="http://collector:4317"):
        OtlpExporter.from_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, throttled())


def test_missing_certificate_is_refused(tmp_path: Path) -> None:
    """A certificate that cannot be read is told at the start."""
    environment = {
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://collector:4317",
        "OTEL_EXPORTER_OTLP_CERTIFICATE": str(tmp_path / "none.pem"),
    }
    with pytest.raises(ValueError, match=r"OTEL_EXPORTER_OTLP_CERTIFICATE cannot be read \(no such file"):
        OtlpExporter.from_environment(environment, throttled())


def test_no_spans_are_an_empty_request() -> None:
    """An empty batch encodes."""
    assert len(encode([]).resource_spans) == 1
