"""The schema of `status`."""

from __future__ import annotations

from control_plane.crds.status import status_schema
from tests.unit.control_plane.crds.structural import is_right

CONDITION = {
    "type": "Accepted",
    "status": "True",
    "observedGeneration": 3,
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "reason": "Accepted",
    "message": "is in force",
}


def test_conditions_are_a_list_by_type() -> None:
    """Two writers of different conditions do not overwrite each other."""
    conditions = status_schema("Backend")["properties"]["conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


def test_only_a_release_has_steps() -> None:
    """A Release shows where it is and why; the others have nothing of the kind."""
    status = {"conditions": [CONDITION], "phase": "progressing", "step": 1, "share": 5, "lastDecision": "x"}
    assert is_right(status_schema("Release"), status)
    assert not is_right(status_schema("Pin"), status)
    assert is_right(status_schema("Pin"), {"conditions": [CONDITION], "sidecars": {"current": 1, "total": 2}})
