"""A Release in words: its line, and a row for each gate."""

from __future__ import annotations

from typing import Any

from control_plane.cli.release_text import gates, headline, likeness

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


def test_what_was_compared_is_a_line_each() -> None:
    """Of the answers that both gave, and of those in the cache; nothing where nothing was."""
    shadow = {
        "compared": 400,
        "agreement": 0.94,
        "similarity": 0.8,
        "lengthRatio": 1.06,
        "otherStatus": 2,
        "otherFinish": 0,
    }
    status = {"phase": "progressing", "step": 0, "share": 0, "shadow": shadow}
    document = {"status": {**status, "cache": {"compared": 60, "disagreed": 3}}}
    assert likeness(document) == [
        "shadow: 400 answers compared, 94 % say about the same, the new ones 1.06 times as long, "
        "2 ended in another status",
        "cache: 3 of 60 answers differ from the other version's",
    ]
    assert likeness(DOCUMENT) == []
    assert "before the first step" in headline(document)


def test_why_the_shadow_was_left_stays_to_be_seen() -> None:
    """The gates tell of the step that it is at; those of the shadow are in the reason of its move."""
    reason = "every gate holds after 200 requests: errorRate 0.01 (old 0.012)"
    steps = [(0, "applied"), (0, "the new version is asked for nobody"), (1, reason), (2, "promoted by ann")]
    decisions = [{"step": step, "reason": reason} for step, reason in steps]
    assert likeness({"status": {"decisions": decisions}}) == [f"out of the shadow: {reason}"]
    assert likeness({"status": {"decisions": decisions[2:]}}) == []
    assert likeness({"status": {"decisions": [1, None]}}) == []
