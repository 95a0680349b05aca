"""`outrigger release`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.control_plane.cli.conftest import Run
from tests.unit.control_plane.cli.stub import Stub

DOCUMENT: dict[str, Any] = {
    "kind": "Release",
    "metadata": {"name": "r"},
    "spec": {"model": "m", "from": "a", "to": "b"},
    "status": {"phase": "progressing", "step": 1, "share": 5, "reason": "baking", "analysis": {"gates": []}},
}


def test_a_release_is_started_from_a_file(stub: Stub, run: Run, tmp_path: Path) -> None:
    """As any document is applied."""
    change = {"document": "Release/r", "action": "create", "fields": []}
    stub.answer("POST /api/v1/apply", {"revision": 3, "changes": [change], "warnings": []})
    (tmp_path / "r.yaml").write_text("kind: Release\nmetadata: {name: r}\nspec: {model: m, from: a, to: b}\n")
    status, out, _ = run("release", "start", "-f", str(tmp_path / "r.yaml"))
    assert status == 0
    assert "Release/r" in out
    assert "revision 3" in out
    assert stub.seen[0].json[0]["metadata"] == {"name": "r"}


def test_its_status_is_a_line_and_its_gates(stub: Stub, run: Run) -> None:
    """-o json is what the API answers."""
    stub.answer("GET /api/v1/releases/r", DOCUMENT)
    assert run("release", "status", "r") == (0, "r: progressing, step 1, 5 %: baking\n", "")
    assert json.loads(run("release", "status", "r", "-o", "json")[1]) == DOCUMENT


@pytest.mark.parametrize("action", ["promote", "pause", "resume", "abort"])
def test_each_action_is_sent_and_told(stub: Stub, run: Run, action: str) -> None:
    """Refused, the reason is told and the status is 1."""
    stub.answer(f"POST /api/v1/releases/r/{action}", DOCUMENT)
    assert run("release", action, "r")[:2] == (0, "r: progressing, step 1, 5 %: baking\n")
    stub.problem(f"POST /api/v1/releases/x/{action}", 409, "Release/x is done")
    assert run("release", action, "x") == (1, "", "outrigger: Release/x is done\n")
