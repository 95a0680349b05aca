from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from ext_proc.telemetry.logs import LineWriter, clean, configure_logging, render_exception

START = "from ext_proc.telemetry.logs import configure_logging\nconfigure_logging('agent', 'info')\n"


def lines_of(program: str) -> list[dict[str, Any]]:
    """Run a program with configured logging in a process of its own and return its log lines."""
    done = subprocess.run(
        [sys.executable, "-c", START + program],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert b"\x1b" not in done.stderr
    assert b"\x00" not in done.stderr
    return [json.loads(line) for line in done.stderr.decode().splitlines()]


def test_line_has_time_level_process_event_and_fields() -> None:
    """One call is one JSON object with the fields in it; a level that is off writes nothing."""
    program = "import structlog; log = structlog.get_logger(); log.info('started', port=1); log.debug('no')"
    (line,) = lines_of(program)
    assert line.pop("time").endswith("Z")
    assert line == {"level": "info", "process": "agent", "event": "started", "port": 1}


def test_forged_record_stays_inside_its_line() -> None:
    """Line breaks, escapes and NUL from outside cannot begin a line or reach the output raw."""
    program = (
        "import structlog\n"
        "structlog.get_logger().warning('bad\\x1b[31m\\x00 model', model='a\\n{\"level\":\"error\"}\\u2028')"
    )
    (line,) = lines_of(program)
    assert line["level"] == "warning"
    assert line["event"] == "bad\\x1b[31m\\x00 model"


def test_libraries_and_warnings_take_the_same_way() -> None:
    """Records of the standard library's loggers are redacted JSON lines too."""
    program = (
        "import logging, warnings\n"
        "logging.getLogger('grpc').error('peer sent %s', 'Bearer abcdefghij')\n"
        "logging.getLogger('uvicorn.access').info('GET /?phone=13800138000')\n"
        "logging.getLogger('x').error('%d', 'no number')\n"
        "warnings.warn('old 13800138000')"
    )
    grpc, uvicorn, wrong, warned = lines_of(program)
    assert (grpc["logger"], grpc["event"]) == ("grpc", "peer sent Bearer [key]")
    assert uvicorn["event"] == "GET /?phone=[phone]"
    assert wrong["event"] == "%d"
    assert "old [phone]" in warned["event"]


def test_uncaught_exceptions_are_lines() -> None:
    """What nobody catches, in the main thread or another, is one redacted line each."""
    program = (
        "import threading\n"
        "def fail(): raise ValueError('call 13800138000')\n"
        "thread = threading.Thread(target=fail); thread.start(); thread.join()\n"
        "fail()"
    )
    lines = lines_of(program)
    assert [line["event"] for line in lines] == ["uncaught exception in a thread", "uncaught exception"]
    assert all("ValueError: call [phone]" in line["exception"] for line in lines)


@pytest.mark.parametrize(
    ("value", "cleaned"),
    [
        (None, None),
        (True, True),
        (200, 200),
        (13800138000, "[phone]"),
        (10**5000, "[large number]"),
        (
            {"Authorization": "x", "user_prompt": "hi", "n": 1},
            {"Authorization": "[removed]", "user_prompt": "[removed]", "n": 1},
        ),
        (["a@b.cn", ("13800138000",)], ["[email]", ["[phone]"]]),
        (b"secret bytes", "[12 bytes]"),
        (ValueError("a@b.cn"), "ValueError: [email]"),
        ("x" * 3_000, "x" * 2_000 + "…"),
    ],
    ids=[
        "none",
        "bool",
        "int",
        "phone-int",
        "400-digits",
        "named-secrets",
        "nested",
        "bytes",
        "error",
        "long",
    ],
)
def test_values_are_cleaned(value: object, cleaned: object) -> None:
    """Every kind of value comes out redacted and bounded; fields named like secrets come out empty."""
    assert clean(value) == cleaned


def test_number_at_the_cut_is_not_half_shown() -> None:
    """A long text is redacted before it is cut."""
    assert "1380013" not in clean("x " * 996 + "13800138000")


def test_traceback_does_not_quote_refused_input() -> None:
    """A validation error names the field and the rule, never the value, which may be a prompt."""
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415

    with pytest.raises(ValidationError) as caught:
        TypeAdapter(int).validate_python("tell me a story")
    text = render_exception(caught.value)
    assert "int_parsing" in text
    assert "tell me a story" not in text.splitlines()[-2]


def test_unknown_level_is_refused() -> None:
    """A level that does not exist is named in the error."""
    with pytest.raises(ValueError, match="'loud'"):
        configure_logging("agent", "loud")


def test_writer_survives_a_closed_pipe() -> None:
    """A reader that went away costs the line, not the request."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb", buffering=0) as stream:
        LineWriter(stream).msg(b"lost")
