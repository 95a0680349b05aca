"""The body of the mirror's PUT."""

from __future__ import annotations

import orjson
from hypothesis import given
from hypothesis import strategies as st

from control_plane.controller.desired import desired
from control_plane.controller.resources import CustomResource, Key, SecretKey

RESOURCES = [
    CustomResource(Key("Model", "m"), "u1", 1, {"versions": []}, {"conditions": ["x"]}),
    CustomResource(Key("Backend", "b"), "u2", 7, {"url": "https://a"}),
    CustomResource(Key("Backend", "a"), "u3", 1, {"url": "https://b"}),
]


def test_documents_carry_names_and_specs_only() -> None:
    """No uid, no generation, no status: what does not matter to the mesh changes nothing."""
    body = orjson.loads(desired(RESOURCES, {SecretKey("s", "k"): "dg==", SecretKey("s", "j"): "dw=="}))
    assert body["documents"][0] == {
        "apiVersion": "outrigger.dev/v1alpha1",
        "kind": "Backend",
        "metadata": {"name": "a"},
        "spec": {"url": "https://b"},
    }
    assert body["secrets"] == {"s": {"j": "dw==", "k": "dg=="}}


@given(st.permutations(RESOURCES))
def test_the_order_does_not_matter(resources: list[CustomResource]) -> None:
    """The same wants are the same bytes, so that nothing is told twice."""
    assert desired(resources, {}) == desired(RESOURCES, {})


def test_secrets_that_cannot_be_read_are_left_out() -> None:
    """An empty list would have them deleted."""
    assert "secrets" not in orjson.loads(desired(RESOURCES, None))
    assert orjson.loads(desired(RESOURCES, {}))["secrets"] == {}
