"""A view says nothing of what it is not of."""

from __future__ import annotations

from dataclasses import replace

from control_plane.controller.resources import CustomResource, Key
from control_plane.controller.verdicts import Standing, Verdict, Verdicts
from control_plane.controller.view import View

RESOURCE = CustomResource(Key("Pin", "p"), "u", 1, {"model": "m"})
TAKEN = Verdict(True, "Accepted")
VIEW = View({RESOURCE.key: RESOURCE}, Verdicts(1, {RESOURCE.key: TAKEN}), Standing(1))


def test_a_verdict_is_of_the_resource_as_it_was_told() -> None:
    """Changed since, made anew under its name, or never told: nothing is known."""
    assert VIEW.verdict(replace(RESOURCE, status={"conditions": []})) is TAKEN
    assert VIEW.verdict(replace(RESOURCE, generation=2)) is None
    assert VIEW.verdict(replace(RESOURCE, uid="v")) is None
    assert VIEW.verdict(replace(RESOURCE, spec={"model": "n"})) is None
    assert VIEW.verdict(replace(RESOURCE, key=Key("Pin", "q"))) is None
