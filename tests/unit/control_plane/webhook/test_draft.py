"""Additions to a pod, and the JSON Patch that says them."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import pytest

from control_plane.webhook.draft import Draft, pointer


def test_a_pointer_escapes() -> None:
    """Tilde first, or the escape of a slash would be escaped once more (RFC 6901)."""
    assert pointer("metadata", "labels", "a.b/c~d", 0) == "/metadata/labels/a.b~1c~0d/0"


@pytest.mark.parametrize(
    "original",
    [
        {},
        {"metadata": None},
        {"metadata": {"labels": None}, "spec": {}},
        {"metadata": {"labels": {"a": "b"}}, "spec": {"volumes": [{"name": "v"}], "containers": [{}]}},
    ],
    ids=repr,
)
def test_the_patch_makes_the_copy(original: dict[str, Any]) -> None:
    """What is absent on the way is made; the original is not touched."""
    original.setdefault("spec", {}).setdefault("containers", [{"name": "a"}])
    before = copy.deepcopy(original)
    draft = Draft(original)
    draft.set(("metadata", "labels"), "x/y", "1")
    draft.set(("metadata", "labels"), "z", "2")
    draft.append(("spec", "volumes"), {"name": "w"})
    draft.insert(("spec", "volumes"), 0, {"name": "u"})
    draft.insert(("spec", "containers", 0, "env"), 0, {"name": "E"})
    assert original == before
    assert jsonpatch.JsonPatch(draft.patch).apply(original) == draft.pod
    assert draft.pod["metadata"]["labels"].items() >= {"x/y": "1", "z": "2"}.items()
    assert draft.pod["spec"]["volumes"][0] == {"name": "u"}
