"""A Release in words: its line, and a row for each gate."""

from __future__ import annotations

from typing import Any

from control_plane.cli.release_text import gates, headline

WORSE = {"gate": "errorRate", "old": 0.01, "new": 0.0312, "limit": 0.01, "evidence": 80.0, "outcome": "fail"}
UNKNOWN = {"gate": "ttftP95", "old": None, "new": None, "limit": 1.2, "evidence": 0.5, "outcome": "pass"}
DOCUMENT: dict[str, Any] = {
    "metadata": {"name": "r"},
    "status": {
        "phase": "progressing",
        "step": 1,
        "share": 5,
        "reason": "baking",
        "analysis": {"gates": [WORSE, UNKNOWN]},
    },
}


def test_a_line_says_how_far_it_is() -> None:
    """Phase, step, share and why."""
    assert headline(DOCUMENT) == "r: progressing, step 1, 5 %: baking"


def test_each_gate_is_a_row() -> None:
    """With how certain it is that the new version is worse; what is not known is left empty."""
    columns, rows = gates(DOCUMENT)
    assert columns[0] == "GATE"
    assert rows == [
        ["errorRate", "0.01", "0.0312", "0.01", "99 %", "fail"],
        ["ttftP95", "", "", "1.2", "0 %", "pass"],
    ]


def test_whatever_came_is_no_error() -> None:
    """An answer of another form has no rows."""
    for document in ({}, {"status": None}, {"status": {"analysis": {"gates": [1]}}}):
        assert gates(document)[1] == []
        assert headline(document)
