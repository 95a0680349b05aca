"""A view says nothing of what it is not of."""

from __future__ import annotations

from dataclasses import replace

from control_plane.controller.resources import CustomResource, Key, SecretKey
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


def test_a_secret_that_does_not_serve_is_named() -> None:
    """Missing, or refused because the API has one of its name."""
    spec = {"credentials": {"secretRef": {"name": "s", "key": "k"}}}
    backend = CustomResource(Key("Backend", "b"), spec=spec)
    verdicts = {backend.key: TAKEN, Key("Secret", "s"): Verdict(False, "Conflict", "stored by the API")}
    view = View({backend.key: backend}, Verdicts(1, {backend.key: TAKEN}), Standing(1), {SecretKey("s", "k")})
    missing = view.verdict(backend)
    refused = replace(view, verdicts=Verdicts(1, verdicts), missing=frozenset()).verdict(backend)
    assert missing is not None
    assert refused is not None
    assert missing.unresolved is not None
    assert refused.unresolved is not None
    assert missing.unresolved[0] == "UnknownReference"
    assert '"s"' in missing.unresolved[1]
    assert refused.unresolved == ("Conflict", 'names the Secret "s", which is refused: stored by the API')
