from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from opentelemetry.sdk.trace.export import SpanExportResult

from ext_proc.agent.otlp import OtlpExporter, encode


def test_absent_collector_loses_the_batch() -> None:
    """A collector that is not there is a failure to the SDK, not an exception."""
    exporter = OtlpExporter(grpc.insecure_channel("127.0.0.1:1"), timeout_s=0.2)
    assert exporter.export([]) is SpanExportResult.FAILURE
    exporter.shutdown()


@pytest.mark.parametrize("endpoint", ["", "http://", "/v1/traces"])
def test_endpoint_without_a_host_is_refused(endpoint: str) -> None:
    """The error says what an endpoint looks like."""
    with pytest.raises(ValueError, match="http://collector:4317"):
        OtlpExporter.from_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint})


def test_missing_certificate_is_refused(tmp_path: Path) -> None:
    """A certificate that cannot be read is told at the start."""
    environment = {
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://collector:4317",
        "OTEL_EXPORTER_OTLP_CERTIFICATE": str(tmp_path / "none.pem"),
    }
    with pytest.raises(FileNotFoundError):
        OtlpExporter.from_environment(environment)


def test_no_spans_are_an_empty_request() -> None:
    """An empty batch encodes."""
    assert len(encode([]).resource_spans) == 1
