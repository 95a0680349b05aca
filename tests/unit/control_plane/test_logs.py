"""The control plane's log."""

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from control_plane.logs import configure_logging


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Give the process its logging back."""
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    structlog.reset_defaults()


def test_each_line_is_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    """Our own lines and those of libraries, tracebacks included; no value can forge a line."""
    log = configure_logging("control-plane", "info")
    log.info("forged\n{}", value="\x1b[2J\0")
    logging.getLogger("uvicorn.error").warning("from %s", "elsewhere")
    try:
        raise ValueError("inside")
    except ValueError:
        logging.getLogger("asyncio").exception("failed")
    lines = capsys.readouterr().err.splitlines()
    first, second, third = map(json.loads, lines)
    assert (first["event"], first["level"], first["process"]) == ("forged\n{}", "info", "control-plane")
    assert (second["event"], second["level"]) == ("from elsewhere", "warning")
    assert "ValueError: inside" in third["exception"]
    assert all(line.isprintable() for line in lines)


def test_lines_below_the_level_are_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    """At warning the log is quiet when all is well."""
    log = configure_logging("control-plane", "warning")
    log.info("chatter")
    logging.getLogger("x").info("chatter")
    log.warning("trouble")
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["trouble"]
