"""Tests of resources as ADS serves them."""

from __future__ import annotations

import pytest

from ext_proc.agent.render.clusters import CLUSTER_TYPE
from ext_proc.agent.render.routes import ROUTES_TYPE
from ext_proc.agent.resources import resource_set


def cluster(name: str, timeout: str = "1s") -> dict[str, object]:
    """Return a small cluster."""
    return {"@type": CLUSTER_TYPE, "name": name, "connect_timeout": timeout}


def test_version_follows_content() -> None:
    """Equal content has an equal version, whatever its order; different content has another."""
    one = resource_set({CLUSTER_TYPE: {"a": cluster("a"), "b": cluster("b")}})
    other = resource_set({CLUSTER_TYPE: {"b": cluster("b"), "a": cluster("a")}})
    changed = resource_set({CLUSTER_TYPE: {"a": cluster("a"), "b": cluster("b", "2s")}})
    assert one == other
    assert one.types[CLUSTER_TYPE].version != changed.types[CLUSTER_TYPE].version


def test_sets_are_taken_apart_and_put_together() -> None:
    """`only` keeps the types named, `replacing` takes those of the other set."""
    old = resource_set({CLUSTER_TYPE: {"a": cluster("a")}, ROUTES_TYPE: {"r": {"name": "r"}}})
    new = resource_set({CLUSTER_TYPE: {"b": cluster("b")}, ROUTES_TYPE: {}})
    mixed = new.replacing(old.only(ROUTES_TYPE))
    assert set(mixed.types[CLUSTER_TYPE].by_name) == {"b"}
    assert set(mixed.types[ROUTES_TYPE].by_name) == {"r"}


def test_unknown_field_is_an_error() -> None:
    """A field that Envoy's API does not have is told with the resource's name."""
    with pytest.raises(ValueError, match=r"a: .*no_such_field"):
        resource_set({CLUSTER_TYPE: {"a": {**cluster("a"), "no_such_field": 1}}})
