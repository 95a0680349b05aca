"""Tests of the rendering of routes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from ext_proc.agent.render.routes import CONSUMER_KEY, ROUTES_NAME, ROUTES_TYPE, render_routes
from ext_proc.agent.resources import resource_set
from ext_proc.contract.routes import CallShape, cluster_name, route_id, shapes_of, terms_in_use
from ext_proc.contract.snapshot import Backend, PolicyLayer, Snapshot, Timeouts
from tests.unit.ext_proc.agent.render.examples import (
    AZURE,
    EXAMPLES,
    FULL,
    LOCAL,
    OPENAI,
    PLAIN,
    PLANNED,
    check_golden,
    routes_in,
)


def routes_of(*snapshots: Snapshot) -> dict[str, dict[str, Any]]:
    """Return the routes by name, in order."""
    return routes_in(render_routes(snapshots))


def alone(backend: Backend, **settings: Any) -> Snapshot:
    """Return a snapshot with one Backend, the default one, and one Policy."""
    layers = (PolicyLayer("p", settings=settings),) if settings else ()
    return Snapshot("1", default_backend=backend.name, backends={backend.name: backend}, policies=layers)


def decided(backend: Backend, shape: CallShape, **settings: Any) -> dict[str, Any]:
    """Return the route of one Backend, shape and Policy."""
    snapshot = alone(backend, **settings)
    (terms,) = terms_in_use(snapshot)
    return routes_of(snapshot)[route_id(backend, terms, shape)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_routes_are_as_reviewed(name: str) -> None:
    """The route table of each example equals its golden file, and Envoy's API knows every field."""
    table = render_routes([EXAMPLES[name]])
    check_golden(f"routes-{name}", table)
    assert resource_set({ROUTES_TYPE: {ROUTES_NAME: table}}).types[ROUTES_TYPE].by_name


def test_every_decision_has_a_route() -> None:
    """Each Backend, terms in use and shape has the route that the processor will name."""
    names = set(routes_of(FULL))
    for backend in FULL.backends.values():
        for terms in terms_in_use(FULL):
            for shape in shapes_of(terms):
                assert route_id(backend, terms, shape) in names


def test_followers_outlive_every_silence_that_a_stream_may_have() -> None:
    """All tries, the pauses between them, and the silence before; but not a processor that hangs."""
    slow = replace(OPENAI, timeouts=Timeouts(request_ms=30_000, stream_idle_ms=10_000))
    quick = replace(LOCAL, timeouts=Timeouts(request_ms=1_000, stream_idle_ms=2_000))
    settings = {"retry.attempts": 2, "retry.max_ms": 1_000, "hold.max_ms": 5_000}
    route = routes_of(alone(quick, **settings), alone(slow, **settings))["origin"]["route"]
    assert route["timeout"] == "0s"
    assert route["idle_timeout"] == f"{2 * 30 + 5 + 10 + 1}s"


def test_union_keeps_older_decisions_before_everything_else() -> None:
    """Older routes stay, ahead of the refusal of unknown ids; the newest snapshot decides failing open."""
    newer = alone(replace(LOCAL, http="2"))
    table = list(routes_of(FULL, newer).values())
    names = [route["name"] for route in table]
    old = route_id(LOCAL, next(iter(terms_in_use(FULL))), CallShape.RAW)
    assert names.index(old) < names.index("no-route") < names.index("undecided")
    assert routes_of(FULL, newer)["undecided"]["route"]["cluster"] == cluster_name(newer.backends["local"])


@pytest.mark.parametrize(
    ("backend", "substitution"),
    [
        (OPENAI, None),
        (AZURE, None),
        (LOCAL, "/base/\\1"),
        (Backend("b", "http://h"), "/\\1"),
        (Backend("b", "http://h/a/v1"), "/a/v1/\\1"),
    ],
)
def test_base_path_replaces_v1(backend: Backend, substitution: str | None) -> None:
    """`/v1/<rest>` becomes `<base path>/<rest>`; nothing is rewritten where it is the same, or Azure's."""
    route = decided(backend, CallShape.JSON)["route"]
    if substitution is None:
        assert "regex_rewrite" not in route
    else:
        assert route["regex_rewrite"]["substitution"] == substitution


def test_time_limits_follow_the_shape() -> None:
    """JSON: one limit over all tries. STREAM: none, but one on each try. RAW: none, and no held retries."""
    backend = Backend("b", "http://h/v1", timeouts=Timeouts(1, 2_500, 400_000))
    shapes = (CallShape.JSON, CallShape.STREAM, CallShape.RAW)
    json_, stream, raw = (decided(backend, shape)["route"] for shape in shapes)
    assert json_["timeout"] == "2.500s"
    assert "per_try_timeout" not in json_["retry_policy"]
    assert stream["timeout"] == "0s"
    assert stream["retry_policy"]["per_try_timeout"] == "2.500s"
    assert stream["retry_policy"]["per_try_idle_timeout"] == "400s"
    assert (raw["timeout"], raw["idle_timeout"]) == ("0s", "400s")
    assert raw["retry_policy"]["retry_on"] == "connect-failure"


@pytest.mark.parametrize(
    ("retry_on", "conditions", "told"),
    [
        (
            ("connect", "reset", "429", "5xx"),
            "connect-failure,reset,refused-stream,retriable-headers",
            {"statuses": {"429": True, "5xx": True}, "hold_ms": 10_000},
        ),
        (("connect",), "connect-failure,retriable-headers", {"statuses": {}, "hold_ms": 10_000}),
        (
            ("503", "context-length"),
            "retriable-headers",
            {"statuses": {"503": True}, "hold_ms": 10_000, "stand_in_on": ["context_length_exceeded"]},
        ),
    ],
)
def test_retry_conditions_are_translated(
    retry_on: tuple[str, ...], conditions: str, told: dict[str, Any]
) -> None:
    """What Envoy sees itself it decides; of answers, the attempt's filter is told by the route's metadata."""
    route = decided(OPENAI, CallShape.JSON, **{"retry.retry_on": retry_on})
    assert route["route"]["retry_policy"]["retry_on"] == conditions
    assert route["metadata"]["filter_metadata"]["envoy.filters.http.lua"] == told


def test_attempts_and_backoff_are_the_policys() -> None:
    """`attempts` counts the first try; pauses are `base` to `max`; a hint is waited for up to `hold.max`."""
    settings = {"retry.attempts": 4, "retry.base_ms": 250, "retry.max_ms": 2_000, "hold.max_ms": 7_000}
    retry = decided(OPENAI, CallShape.JSON, **settings)["route"]["retry_policy"]
    assert retry["num_retries"] == 3
    assert retry["retry_back_off"] == {"base_interval": "0.250s", "max_interval": "2s"}
    assert retry["rate_limited_retry_back_off"]["max_interval"] == "8s"


def test_a_base_above_max_counts_for_both() -> None:
    """As two Policies may come together; a stream's limit leaves room for it."""
    settings = {"retry.attempts": 2, "retry.base_ms": 9_000, "retry.max_ms": 500, "hold.max_ms": 0}
    route = decided(OPENAI, CallShape.JSON, **settings)["route"]
    assert route["retry_policy"]["retry_back_off"] == {"base_interval": "9s", "max_interval": "9s"}
    limits = replace(OPENAI, timeouts=replace(OPENAI.timeouts, request_ms=2_000, stream_idle_ms=1_000))
    assert decided(limits, CallShape.STREAM, **settings)["route"]["idle_timeout"] == "11s"


def test_a_call_with_stand_ins_has_a_route_of_its_own() -> None:
    """It has one more try for each, and its cluster is the plan's."""
    (terms,) = terms_in_use(PLANNED)
    routes = routes_of(PLANNED)
    alone, planned = (routes[route_id(PLAIN, terms, CallShape.JSON, number)]["route"] for number in (0, 1))
    assert planned["retry_policy"]["num_retries"] == alone["retry_policy"]["num_retries"] + 1
    assert "cluster" not in planned
    assert (
        planned["inline_cluster_specifier_plugin"]["extension"]["typed_config"]["override_metadata_namespace"]
        == "outrigger.plan"
    )


def test_a_hedged_call_has_a_route_of_its_own() -> None:
    """Only where a Policy hedges: a slow try is joined by another, and time limits stay."""
    route = decided(OPENAI, CallShape.HEDGED, **{"retry.hedge_after_ms": 800})["route"]
    plain = decided(OPENAI, CallShape.JSON, **{"retry.hedge_after_ms": 800})["route"]
    assert route["retry_policy"] == {**plain["retry_policy"], "per_try_timeout": "0.800s"}
    assert route["hedge_policy"] == {"hedge_on_per_try_timeout": True}
    assert route["timeout"] == plain["timeout"]
    assert not [name for name in routes_of(alone(OPENAI)) if ".hedged." in name]


def test_failing_open_and_closed() -> None:
    """Undecided calls go to the default Backend; nowhere when closed, or without one that can be it."""
    assert routes_of(alone(PLAIN))["undecided"]["route"]["cluster"] == cluster_name(PLAIN)
    closed = routes_of(replace(alone(PLAIN), fail_open=False))
    assert closed["processor-unavailable"]["route"] == {"cluster": "outrigger_nowhere"}
    for snapshot in (Snapshot("1"), alone(AZURE)):
        assert routes_of(snapshot)["no-backend"]["route"] == {"cluster": "outrigger_nowhere"}


@pytest.mark.parametrize(
    ("value", "ours"),
    [
        ("Bearer ork_abc", True),
        ("bearer  ORK_abc", True),
        ("ork_abc", True),
        ("Bearer sk-a, Bearer ork_b", True),
        ("Bearer sk-work_abc", False),
        ("Bearer sk-ork_abc", False),
    ],
)
def test_consumer_keys_are_told_from_providers(value: str, ours: bool) -> None:
    """A Consumer's key begins with `ork_`, in any case and place; one that only contains it is none."""
    assert bool(re.fullmatch(CONSUMER_KEY, value)) is ours
