"""Routes whose cluster is the plan's."""

from __future__ import annotations

from envoy.config.route.v3 import route_components_pb2
from google.protobuf import json_format

from ext_proc.agent.render.priority_groups import REFRESH_CLUSTER_ON_RETRY, by_plan, refresh_clusters


def test_a_planned_route_chooses_anew() -> None:
    """The cluster becomes the first group; on the wire the retry policy says that each try chooses again."""
    route = {
        "match": {"prefix": "/"},
        "route": {"cluster": "a", "retry_policy": {"retry_on": "reset"}},
    }
    planned = by_plan(route)
    assert route["route"] == {"cluster": "a", "retry_policy": {"retry_on": "reset"}}
    wire = {}
    for name, which in (("p", planned), ("r", route)):
        message = json_format.ParseDict(which, route_components_pb2.Route())
        refresh_clusters(message)
        wire[name] = message.SerializeToString()
    assert REFRESH_CLUSTER_ON_RETRY in wire["p"]
    assert REFRESH_CLUSTER_ON_RETRY not in wire["r"]
    assert b"outrigger.plan" in wire["p"]
