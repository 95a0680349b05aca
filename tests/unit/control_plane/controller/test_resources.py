"""Custom resources, and which Secrets they name."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane.controller.resources import (
    CustomResource,
    Key,
    SecretKey,
    custom_resources,
    secrets_named,
    wants,
)


def test_an_object_is_read_for_what_it_wants() -> None:
    """Name, uid, generation, spec and status are all that is looked at."""
    value = {
        "metadata": {"name": "a", "uid": "u", "generation": 3, "labels": {"x": "y"}},
        "spec": {"tenant": "t"},
        "status": {"conditions": []},
    }
    (found,) = custom_resources("Consumer", [value])
    assert found == CustomResource(Key("Consumer", "a"), "u", 3, {"tenant": "t"}, {"conditions": []})
    assert found.path == "/apis/outrigger.dev/v1alpha1/consumers/a/status"


def test_what_is_being_deleted_wants_nothing() -> None:
    """Another's finalizer may keep it for long; it is out of force at once."""
    value = {"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}}
    assert not list(custom_resources("Pin", [value]))


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        ("Backend", {"credentials": {"secretRef": {"name": "s", "key": "k"}}}, {SecretKey("s", "k")}),
        ("Backend", {"credentials": {"env": "KEY"}}, set()),
        ("Backend", {"credentials": None}, set()),
        ("Backend", {"credentials": {"secretRef": {"name": 1}}}, set()),
        (
            "Release",
            {
                "notify": [
                    {"url": "https://a", "secret": {"secretRef": {"name": "s", "key": "k"}}},
                    "https://b",
                ]
            },
            {SecretKey("s", "k")},
        ),
        ("Release", {"notify": "https://a"}, set()),
        ("Pin", {"credentials": {"secretRef": {"name": "s", "key": "k"}}}, set()),
    ],
)
def test_only_references_to_secrets_are_followed(kind: str, spec: dict[str, Any], expected: object) -> None:
    """Backends' credentials and what Releases sign with; whatever form the rest has."""
    assert secrets_named(CustomResource(Key(kind, "a"), spec=spec)) == expected


def test_a_status_is_nothing_that_is_wanted() -> None:
    """Our own writes are no changes; a new spec, another object of the name and a deletion are."""
    metadata: dict[str, Any] = {"name": "a", "uid": "u", "generation": 1, "resourceVersion": "1"}
    value = {"metadata": metadata, "spec": {"x": 1}}
    assert wants({**value, "metadata": {**metadata, "resourceVersion": "2"}, "status": {}}) == wants(value)
    assert wants({**value, "spec": {"x": 2}}) != wants(value)
    assert wants({**value, "metadata": {**metadata, "uid": "v"}}) != wants(value)
    assert wants({**value, "metadata": {**metadata, "deletionTimestamp": "now"}}) != wants(value)
