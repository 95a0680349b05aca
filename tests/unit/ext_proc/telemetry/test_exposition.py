from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ext_proc.telemetry.exposition import MAX_CONNECTIONS, FolderCollector, MetricsServer, serve_metrics
from ext_proc.telemetry.series import CounterTable


class Lines:
    """A logger that keeps what it is told."""

    def __init__(self) -> None:
        self.fields: list[dict[str, Any]] = []

    def warning(self, event: str, **fields: Any) -> None:
        """Keep one line."""
        self.fields.append(fields)


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    """Serve one counter on a free port."""
    table = CounterTable("openai_request", "Calls.", ["status"])
    table.inc(("200",), 3)
    started = serve_metrics("127.0.0.1", 0, [table])
    yield started
    started.close()


def url(server: MetricsServer, path: str) -> str:
    """Return the address of a path on the server."""
    return f"http://127.0.0.1:{server.port}{path}"


def test_text_format(server: MetricsServer) -> None:
    """A plain GET gets the Prometheus text format with the exact series name."""
    response = httpx.get(url(server, "/metrics"))
    assert response.headers["content-type"].startswith("text/plain")
    assert 'openai_request_total{status="200"} 3.0' in response.text.splitlines()


def test_open_metrics_when_asked_for(server: MetricsServer) -> None:
    """The Accept header chooses OpenMetrics."""
    accept = "application/openmetrics-text; version=1.0.0"
    response = httpx.get(url(server, "/metrics"), headers={"accept": accept})
    assert response.headers["content-type"].startswith("application/openmetrics-text")
    assert response.text.endswith("# EOF\n")


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/", 404), ("GET", "/metrics/x", 404), ("POST", "/metrics", 405)]
)
def test_nothing_else_is_answered(server: MetricsServer, method: str, path: str, status: int) -> None:
    """Only GET /metrics is there."""
    assert httpx.request(method, url(server, path)).status_code == status


def test_probes_are_answered_beside_the_metrics(server: MetricsServer) -> None:
    """That the process lives, always; the rest as it is now, and only what is a question."""
    assert httpx.get(url(server, "/healthz")).status_code == 200
    assert httpx.get(url(server, "/readyz")).status_code == 404
    answers = [False, True]
    asked = serve_metrics("127.0.0.1", 0, [], {"/readyz": lambda: answers.pop(0)})
    assert httpx.get(url(asked, "/healthz")).status_code == 200
    assert [httpx.get(url(asked, "/readyz")).status_code for _ in range(2)] == [503, 200]
    asked.close()


def test_slow_scraper_holds_up_nobody(server: MetricsServer) -> None:
    """A connection that sends nothing does not keep the next scrape waiting."""
    with socket.create_connection(("127.0.0.1", server.port)):
        assert httpx.get(url(server, "/metrics"), timeout=5).status_code == 200


def test_silent_connections_do_not_keep_the_kubelet_out(server: MetricsServer) -> None:
    """Beyond so many the oldest is closed for a new one."""
    with contextlib.ExitStack() as held:
        silent = [
            held.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=5))
            for _ in range(MAX_CONNECTIONS)
        ]
        assert httpx.get(url(server, "/healthz"), timeout=5).status_code == 200
        assert silent[0].recv(1) == b""
        silent[-1].sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert silent[-1].recv(8) == b"HTTP/1.0"


def test_torn_file_is_left_out_and_told_once(tmp_path: Path) -> None:
    """A file that cannot be read costs its own series only, and one line of log."""
    (tmp_path / "counter_w0.db").write_bytes(b"\xff" * 100)
    lines = Lines()
    collector = FolderCollector(tmp_path, lines, lambda: 0.0)
    assert list(collector.collect()) == []
    assert list(collector.collect()) == []
    assert [fields["file"] for fields in lines.fields] == ["counter_w0.db"]


def test_missing_folder_is_empty(tmp_path: Path) -> None:
    """Before the first processor has started there is nothing to add."""
    assert list(FolderCollector(tmp_path / "none", Lines(), lambda: 0.0).collect()) == []
