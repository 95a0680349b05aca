"""`outrigger diagnose`: what it refuses and how it shows a diagnosis."""

from __future__ import annotations

import pytest
from rich.table import Table

from control_plane.cli.diagnose import told
from control_plane.tools.diagnose.diagnosis import Diagnosis
from control_plane.tools.diagnose.findings import findings
from control_plane.tools.diagnose.probes import Probe
from control_plane.tools.diagnose.readings import read
from control_plane.tools.diagnose.report import Spent
from control_plane.tools.diagnose.taken import Taken
from tests.unit.control_plane.cli.conftest import Run
from tests.unit.control_plane.tools.diagnose.samples import everything, fresh


def diagnosis(taken: Taken) -> Diagnosis:
    """Return the diagnosis of what was taken."""
    readings = read(taken, tls=False, at_once=8)
    return Diagnosis(Spent("http://h/v1", "m\x1b[1m", 9, 1234, 2.0), readings, findings(readings))


def test_measured_then_gains_then_gaps() -> None:
    """Two tables, a reason for each gain, and sentences on the rest; nothing drives the terminal."""
    lines = told(diagnosis(everything()))
    tables = [line for line in lines if isinstance(line, Table)]
    texts = [line for line in lines if isinstance(line, str)]
    assert [len(table.columns) for table in tables] == [4, 6]
    assert texts[0] == "m\\x1b[1m at http://h/v1: 9 calls, 1,234 tokens, 2.0 s"
    assert any(text.startswith("1: The first call took 2,300 ms") for text in texts)
    assert any(text.startswith("no gain seen: One call at a time") for text in texts)
    assert "not measured: TLS: the URL is http://, so there is no TLS to measure" in texts


def test_nothing_to_gain() -> None:
    """Said so, in place of an empty table."""
    taken = Taken()
    taken.samples[Probe.FIRST] = [fresh(0.4)]
    assert "nothing to gain was found" in told(diagnosis(taken))


@pytest.mark.parametrize(
    "options",
    [
        ("--url", "http://h"),
        ("--model", "m"),
        ("--url", "ftp://h", "--model", "m"),
        ("--url", "http://h", "--model", "m", "--requests", "0"),
        ("--url", "http://h", "--model", "m", "--pause", "long"),
    ],
    ids=["no model", "no URL", "no HTTP", "no calls", "no duration"],
)
def test_wrong_usage(run: Run, options: tuple[str, ...]) -> None:
    """Status 2, before anything is sent."""
    status, out, err = run("diagnose", *options)
    assert (status, out) == (2, "")
    assert "Error" in err
