"""Tests of resources as ADS serves them."""

from __future__ import annotations

from typing import Any

import pytest
from envoy.config.route.v3 import route_pb2
from google.protobuf import json_format

from ext_proc.agent.render.clusters import CLUSTER_TYPE
from ext_proc.agent.render.routes import ROUTES_NAME, ROUTES_TYPE, render_routes
from ext_proc.agent.resources import resource_set
from tests.unit.ext_proc.agent.render.examples import EXAMPLES


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
    """A field that Envoy does not have is told with the resource's name; so is a number that is too large."""
    with pytest.raises(ValueError, match=r"a: .*no_such_field"):
        resource_set({CLUSTER_TYPE: {"a": {**cluster("a"), "no_such_field": 1}}})
    with pytest.raises(ValueError, match="a: "):
        resource_set({CLUSTER_TYPE: {"a": {**cluster("a"), "max_requests_per_connection": 2**70}}})


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_table_is_written_as_if_in_one_piece(name: str) -> None:
    """Routes are written one by one and kept, which does not show; a second time neither."""
    table = render_routes([EXAMPLES[name]])
    for _ in range(2):
        written = resource_set({ROUTES_TYPE: {ROUTES_NAME: table}}).types[ROUTES_TYPE].by_name[ROUTES_NAME]
        read = route_pb2.RouteConfiguration.FromString(written.value)
        whole = json_format.MessageToDict(read, preserving_proto_field_name=True)
        again = json_format.ParseDict(without_type(table), route_pb2.RouteConfiguration())
        assert whole == json_format.MessageToDict(again, preserving_proto_field_name=True)


def without_type(table: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a resource."""
    return {key: value for key, value in table.items() if key != "@type"}
