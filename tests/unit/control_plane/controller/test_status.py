"""Statuses: both conditions for the generation, times only at transitions, and nothing written twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.controller.resources import CustomResource, Key
from control_plane.controller.status import update_for
from control_plane.controller.verdicts import Programming, Progress, Standing, Verdict
from control_plane.crds.status import status_schema
from tests.unit.control_plane.crds.structural import is_right

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TAKEN = Verdict(True, "Accepted")
REFUSED = Verdict(False, "UnknownReference", "names Backend/b, which is not there", in_force=True)
RELEASE = CustomResource(Key("Release", "r"), "u", 2)


def standing(programmed: bool = True, current: int = 1, total: int = 2, **progress: Progress) -> Standing:
    """Return what is in force."""
    return Standing(5, {RELEASE.key: Programming(programmed, current, total)}, progress)


def written(
    resource: CustomResource, verdict: Verdict, found: Standing, now: datetime = NOW
) -> tuple[CustomResource, bool | None]:
    """Return the resource with its status written, and whether that was urgent (None: nothing to write)."""
    update = update_for(resource, verdict, found, now)
    if update is None:
        return resource, None
    merged = {**resource.status, **update.status}
    status = {name: value for name, value in merged.items() if value is not None}
    return replace(resource, status=status), update.urgent


def conditions(resource: CustomResource) -> dict[str, dict[str, Any]]:
    """Return the conditions by type."""
    return {item["type"]: item for item in resource.status["conditions"]}


def test_an_accepted_resource_is_programmed_with_counts() -> None:
    """Both conditions are true for the generation; message and fields count the sidecars."""
    resource, urgent = written(RELEASE, TAKEN, standing())
    found = conditions(resource)
    assert urgent
    assert {name: item["status"] for name, item in found.items()} == {
        "Accepted": "True",
        "Programmed": "True",
    }
    assert {item["observedGeneration"] for item in found.values()} == {2}
    assert "1 of 2" in found["Programmed"]["message"]
    assert resource.status["sidecars"] == {"current": 1, "total": 2}
    assert found["Accepted"]["lastTransitionTime"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("verdict", "found", "expected"),
    [
        (REFUSED, standing(), ("False", "UnknownReference", "last accepted spec stays in force")),
        (Verdict(False, "Conflict"), Standing(5), ("False", "Conflict", "nothing of it is in force")),
        (TAKEN, standing(programmed=False), ("False", "NotInForce", "Not in the policy in force")),
        (TAKEN, Standing(5), ("Unknown", "Pending", "not said yet")),
    ],
)
def test_programmed_says_why_not(verdict: Verdict, found: Standing, expected: tuple[str, str, str]) -> None:
    """Refused, halted, or not told yet: each has its reason."""
    resource, _ = written(RELEASE, verdict, found)
    programmed = conditions(resource)["Programmed"]
    assert (programmed["status"], programmed["reason"]) == expected[:2]
    assert expected[2] in programmed["message"]


def test_what_is_written_is_not_written_again() -> None:
    """At rest nothing is due, however much time goes by."""
    resource, _ = written(RELEASE, TAKEN, standing())
    assert update_for(resource, TAKEN, standing(), NOW + timedelta(days=1)) is None


def test_the_time_of_a_transition_is_that_of_the_status() -> None:
    """A new reason or message keeps the time; a new status has its own."""
    later = NOW + timedelta(hours=1)
    resource, _ = written(RELEASE, TAKEN, standing())
    resource, urgent = written(resource, TAKEN, standing(current=2), later)
    assert urgent is False
    assert conditions(resource)["Programmed"]["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    resource, urgent = written(resource, REFUSED, standing(current=2), later)
    assert urgent
    assert conditions(resource)["Accepted"]["lastTransitionTime"] == "2026-01-01T01:00:00Z"


def test_a_new_generation_is_said_at_once() -> None:
    """Although nothing else differs, whoever waits for the generation has to see it."""
    resource, _ = written(RELEASE, TAKEN, standing())
    resource, urgent = written(replace(resource, generation=3), TAKEN, standing())
    assert urgent
    assert {item["observedGeneration"] for item in conditions(resource).values()} == {3}


def test_others_conditions_stay() -> None:
    """A condition that is not ours is handed on as it was."""
    foreign = {"type": "Reviewed", "status": "True"}
    resource, _ = written(replace(RELEASE, status={"conditions": [foreign]}), TAKEN, standing())
    assert conditions(resource)["Reviewed"] == foreign


def test_a_release_shows_where_it_is() -> None:
    """Step, share, phase and the last decision; they go when there is nothing to say."""
    found = standing(r=Progress("progressing", 1, 5.0, "gates are met"))
    resource, _ = written(RELEASE, TAKEN, found)
    assert resource.status["phase"] == "progressing"
    assert (resource.status["step"], resource.status["share"]) == (1, 5.0)
    assert resource.status["lastDecision"] == "gates are met"
    resource, urgent = written(resource, TAKEN, standing(r=Progress("progressing", 1, 5.0, "waits")))
    assert urgent is False
    resource, _ = written(resource, TAKEN, standing())
    assert "phase" not in resource.status


@given(
    st.sampled_from([TAKEN, REFUSED]),
    st.booleans(),
    st.integers(0, 9),
    st.text(max_size=9),
    st.integers(0, 9),
)
def test_every_status_is_of_its_schema(
    verdict: Verdict, programmed: bool, current: int, reason: str, step: int
) -> None:
    """Whatever the control plane says, the API server takes what is made of it."""
    found = standing(programmed, current, 9, r=Progress("paused", step, 5.0, reason))
    resource, _ = written(RELEASE, verdict, found)
    assert is_right(status_schema("Release"), resource.status)


def test_a_secret_that_does_not_serve_is_said_of_what_names_it() -> None:
    """The rest of the resource is in force."""
    verdict = replace(TAKEN, unresolved=("UnknownReference", "names the Secret"))
    resource, _ = written(RELEASE, verdict, standing())
    said = {name: (item["status"], item["reason"]) for name, item in conditions(resource).items()}
    assert said == {"Accepted": ("False", "UnknownReference"), "Programmed": ("True", "Programmed")}
