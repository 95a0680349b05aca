"""The line of the access log."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ext_proc.agent.access_log_format import OPERATORS, SEPARATOR, Line, line_format, read_line


def test_what_is_written_is_read() -> None:
    """Each field comes back from its own place."""
    assert read_line(line_format()) == OPERATORS
    line = Line(*map(str, range(len(Line._fields))))
    assert read_line(SEPARATOR.join(line)) == line


@pytest.mark.parametrize("text", ["", "-", SEPARATOR.join(["-"] * (len(Line._fields) + 1))])
def test_another_format_is_no_line(text: str) -> None:
    """One of an older Envoy's bootstrap, say."""
    with pytest.raises(ValueError, match="fields, not"):
        read_line(text)


def test_it_loads_no_protobuf() -> None:
    """It is part of the bootstrap's process, which has to start at once."""
    code = "import sys, ext_proc.agent.access_log_format; print('google.protobuf' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
