"""What the user sees."""

import io
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from control_plane.cli.launcher.screen import Screen, first_notices, log_writer, ready_lines, warn
from control_plane.cli.launcher.settings import LaunchSettings
from control_plane.settings import ADMIN_TOKEN_LINE, NOT_APPLIED_LINE

SETTINGS = LaunchSettings(
    data_dir=Path("d"), proxy_port=10000, api_port=8080, metrics_port=9102, envoy_admin_port=9901
)


def test_only_the_first_notices_are_shown() -> None:
    """Thousands of documents do not flood the terminal."""
    few, many = [[f"Release/r{at:02}: spec.f" for at in range(count)] for count in (20, 100)]
    assert first_notices(few) == few
    assert first_notices(many) == [
        *few,
        "80 more of these; outrigger validate names them",
    ]


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


def test_a_minted_token_is_shown_once_and_at_once() -> None:
    """With what to do with it; the panel points there and does not repeat it."""
    out = io.StringIO()
    screen = Screen(Console(file=out))
    screen.hear(f"{ADMIN_TOKEN_LINE}ort_1_x")
    screen.hear("anything else")
    assert out.getvalue().splitlines()[-1] == "  export OUTRIGGER_TOKEN=ort_1_x"
    screen.ready(SETTINGS, [])
    assert out.getvalue().count("ort_1_x") == 1
    assert "(the one shown above)" in out.getvalue()
    assert "anything else" not in out.getvalue()


def test_files_that_were_left_out_are_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    """Among the other warnings, with all that was said of them."""
    Screen(Console(file=io.StringIO())).hear(f"{NOT_APPLIED_LINE}Backend/b: why")
    assert capsys.readouterr().err == "warning: files not applied: Backend/b: why\n"


@pytest.mark.parametrize(
    ("given", "whose"), [("top-secret", "the one of --admin-token"), (None, "the admin token of the first")]
)
def test_the_panel_says_which_token_the_commands_take(given: str | None, whose: str) -> None:
    """Never the token; the server only when it is not where the commands look by themselves."""
    text = "\n".join(ready_lines(replace(SETTINGS, admin_token=given, api_port=8081), []))
    assert whose in text
    assert "top-secret" not in text
    assert "export OUTRIGGER_SERVER=http://127.0.0.1:8081" in text
    assert "OUTRIGGER_SERVER" not in "\n".join(ready_lines(SETTINGS, []))


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
    (thread,) = (one for one in threading.enumerate() if one.name == "log")
    os.close(reading)  # frees the thread, which holds a line that nobody took
    thread.join(10)
    assert not thread.is_alive(), "it would write into whatever is opened as this descriptor next"
    os.close(writing)
