"""Routes whose cluster is the plan's."""

from __future__ import annotations

from ext_proc.agent.render.priority_groups import REFRESH_CLUSTER_ON_RETRY, by_plan
from ext_proc.agent.render.routes import ROUTES_TYPE
from ext_proc.agent.resources import resource_set


def test_a_planned_route_chooses_anew() -> None:
    """The cluster becomes the first group; on the wire the retry policy says that each try chooses again."""
    route = {
        "match": {"prefix": "/"},
        "route": {"cluster": "a", "retry_policy": {"retry_on": "reset"}},
    }
    planned = by_plan(route)
    assert route["route"] == {"cluster": "a", "retry_policy": {"retry_on": "reset"}}
    hosts = {
        one: {"name": "h", "domains": ["*"], "routes": [which]}
        for one, which in (("p", planned), ("r", route))
    }
    wire = {
        name: resource_set({ROUTES_TYPE: {"t": {"name": "t", "virtual_hosts": [host]}}})
        .types[ROUTES_TYPE]
        .by_name["t"]
        .value
        for name, host in hosts.items()
    }
    assert REFRESH_CLUSTER_ON_RETRY in wire["p"]
    assert REFRESH_CLUSTER_ON_RETRY not in wire["r"]
    assert b"outrigger.plan" in wire["p"]
