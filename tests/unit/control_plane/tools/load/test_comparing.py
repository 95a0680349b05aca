"""Two runs side by side."""

import json

import pytest

from control_plane.tools.load.comparing import NoReport, as_json, compared, read_report
from tests.unit.control_plane.tools.load.runs import finished


def test_ratios_are_this_over_that() -> None:
    """More answers are better, more milliseconds are worse."""
    slow, quick = finished(*[0.2] * 10, errors=2), finished(*[0.1] * 10)
    rows = {row.label: row for row in compared(quick, slow)}
    assert rows["good answers"].ratio == pytest.approx(2, rel=0.01)
    assert rows["good answers"].better
    assert rows["p99"].ratio == pytest.approx(0.5, rel=0.01)
    assert rows["p99"].better
    assert rows["errors"].ratio == 0
    assert compared(slow, quick)[1].better is False


def test_equal_figures_are_neither_better_nor_worse() -> None:
    """And what both lack is left out."""
    made = finished(0.1, 0.1)
    rows = compared(made, made)
    assert {row.better for row in rows} == {None}
    assert "errors" not in {row.label for row in rows}


def test_a_ratio_to_nothing_is_none() -> None:
    """Errors where there were none are worse."""
    row = compared(finished(0.1, errors=1), finished(0.1))[-1]
    assert (row.label, row.ratio, row.better) == ("errors", None, False)
    assert as_json(finished(0.1, errors=1), finished(0.1))["ratios"]["errors"] is None


def test_a_report_is_read_back() -> None:
    """As it was written."""
    made = finished(0.1)
    assert read_report(json.dumps(made).encode()) == made


def test_what_a_file_holds_besides_does_no_harm() -> None:
    """Names are printable, points are points."""
    made = {**finished(0.1), "name": "a\x1b[2J", "distribution": [[50, 1.5], [1], "x", [50, "y"], [50, -1]]}
    read = read_report(json.dumps(made).encode())
    assert read["name"] == "a?[2J"
    assert read["distribution"] == [[50, 1.5]]
    assert read_report(b'{"rps": 1, "p50": 1, "p99": 1}')["distribution"] == []


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"rps": "many", "p50": 1, "p99": 2}'])
def test_what_is_no_report_is_told(text: bytes) -> None:
    """With the command that writes one."""
    with pytest.raises(NoReport, match="outrigger bench"):
        read_report(text)
