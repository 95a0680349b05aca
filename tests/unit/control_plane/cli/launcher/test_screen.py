"""What the user sees."""

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from control_plane.cli.launcher.screen import Screen, log_writer, ready_lines, warn
from control_plane.cli.launcher.settings import LaunchSettings

SETTINGS = LaunchSettings(
    data_dir=Path("d"), proxy_port=10000, api_port=8080, metrics_port=9102, envoy_admin_port=9901
)


def test_the_ready_lines_can_be_pasted() -> None:
    """Where to point a client, where API and metrics are, a call to try."""
    text = "\n".join(ready_lines(SETTINGS, ["gpt-4o"]))
    assert "export OPENAI_BASE_URL=http://127.0.0.1:10000/v1" in text
    assert "http://127.0.0.1:8080/docs" in text
    assert "http://127.0.0.1:9102/metrics" in text
    assert '"model": "gpt-4o"' in text
    assert "Ctrl-C" in text


def test_elsewhere_than_on_a_terminal_the_lines_are_plain() -> None:
    """Logs and scripts get no colours and no frames; long lines stay whole."""
    out = io.StringIO()
    screen = Screen(Console(file=out, width=40))
    screen.progress("waiting for Envoy")
    screen.ready(SETTINGS, [])
    assert out.getvalue().startswith("Outrigger is ready\n")
    assert "\x1b" not in out.getvalue()
    assert (
        "  curl http://127.0.0.1:10000/v1/chat/completions -H 'content-type: application/json' \\\n"
        in out.getvalue()
    )


def test_on_a_terminal_the_lines_stand_between_rules() -> None:
    """And what moves has ended by then."""
    out = io.StringIO()
    screen = Screen(Console(file=out, force_terminal=True, width=120))
    screen.progress("waiting for Envoy")
    screen.ready(SETTINGS, [])
    assert "Outrigger is ready" in out.getvalue()
    curl = "  curl http://127.0.0.1:10000/v1/chat/completions -H 'content-type: application/json' \\"
    assert curl in out.getvalue().splitlines(), "copied lines end where they end"


def test_warnings_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """One a line."""
    warn(["a", "b"])
    assert capsys.readouterr().err == "warning: a\nwarning: b\n"


def test_log_lines_are_written_in_order(tmp_path: Path) -> None:
    """All that was written is there when the writer ends."""
    path = tmp_path / "log"
    with path.open("wb") as file, log_writer(file.fileno()) as write:
        for number in range(100):
            write(str(number))
    assert path.read_text().split() == [str(number) for number in range(100)]


def test_a_reader_that_stopped_does_not_stop_the_writer() -> None:
    """Lines beyond the bound are dropped, and neither writing nor ending waits for the reader."""
    reading, writing = os.pipe()
    with log_writer(writing) as write:
        for _ in range(30_000):
            write("x" * 100)
    os.close(reading)  # frees the thread, which holds a line that nobody took
    os.close(writing)
