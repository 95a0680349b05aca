"""What the commands that measure share."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from pathlib import Path

import pytest
import typer

from control_plane.cli.failures import CommandFailed
from control_plane.cli.measuring import (
    MOST_FILES,
    allow_connections,
    progress,
    sent_headers,
    stop_on_signals,
    target_url,
    writable,
    write_page,
)


def test_the_key_comes_from_the_environment() -> None:
    """Unless a header is one already."""
    environment = {"OPENAI_API_KEY": " sk-1 "}
    assert sent_headers([], environment) == {"authorization": "Bearer sk-1"}
    assert sent_headers(["Authorization: Bearer own"], environment) == {"authorization": "Bearer own"}
    assert sent_headers(["X-Outrigger-Cache:no-store", "a: b:c"], {}) == {
        "x-outrigger-cache": "no-store",
        "a": "b:c",
    }


@pytest.mark.parametrize("text", ["secret", ": secret", "a b: secret", "a: secret\r\nb: c", "a: sécret"])
def test_what_is_no_header_is_wrong_usage(text: str) -> None:
    """Its value is not repeated."""
    with pytest.raises(typer.BadParameter) as told:
        sent_headers([text], {})
    assert "cret" not in str(told.value)


def test_what_can_be_no_key_is_told() -> None:
    """Not shown."""
    with pytest.raises(CommandFailed) as told:
        sent_headers([], {"OPENAI_API_KEY": "sk-\n1"})
    assert "sk-" not in str(told.value)


def test_a_url_is_checked_as_it_is_read() -> None:
    """What cannot be called is wrong usage."""
    assert target_url("http://h:1") == "http://h:1/v1"
    with pytest.raises(typer.BadParameter):
        target_url("h:1")


def test_a_page_can_be_written_or_is_told_before_the_run(tmp_path: Path) -> None:
    """A folder that is not there loses no long run."""
    writable(None)
    writable(tmp_path / "new.html")
    for wrong in (tmp_path / "no" / "new.html", tmp_path):
        with pytest.raises(typer.BadParameter):
            writable(wrong)
    write_page(tmp_path / "new.html", "é")
    assert (tmp_path / "new.html").read_text(encoding="utf-8") == "é"
    with pytest.raises(CommandFailed, match="--html"):
        write_page(tmp_path / "no" / "new.html", "")


def test_nobody_watches_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing is drawn."""
    with progress("m", 10) as watch:
        assert watch is None
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_there_is_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It tells errors, and is gone at the end; stdout stays clean."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with progress("the-model", 10) as watch:
        assert watch is not None
        watch(5, 2)
    out, err = capsys.readouterr()
    assert out == ""
    assert "the-model" in err


def test_as_many_connections_as_the_machine_allows() -> None:
    """A shell often allows 1,024 files, fewer than there may be callers."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if before[1] == resource.RLIM_INFINITY else min(MOST_FILES, before[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        allow_connections()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_the_first_signal_asks_for_an_end() -> None:
    """The second would end the process as ever."""
    stop = stop_on_signals()
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(5):
        await stop.wait()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
