"""Tests of the rendering of clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ext_proc.agent.render.clusters import (
    CLUSTER_TYPE,
    FREE_RETRIES,
    HTTP_OPTIONS,
    WAITING,
    render_clusters,
)
from ext_proc.agent.resources import resource_set
from ext_proc.contract.routes import cluster_name
from ext_proc.contract.snapshot import Backend, Model, PolicyLayer, Quota, Snapshot, Version
from tests.unit.ext_proc.agent.render.examples import EXAMPLES, FULL, OPENAI, check_golden


def one(backend: Backend, **changes: Any) -> dict[str, Any]:
    """Return the one cluster of a snapshot with `backend` alone."""
    (cluster,) = render_clusters([Snapshot("1", backends={backend.name: backend}, **changes)]).values()
    return cluster


@pytest.mark.parametrize("name", EXAMPLES)
def test_clusters_are_as_reviewed(name: str) -> None:
    """The clusters of each example equal its golden file, and Envoy's API knows every field."""
    clusters = render_clusters([EXAMPLES[name]])
    check_golden(f"clusters-{name}", clusters)
    assert set(resource_set({CLUSTER_TYPE: clusters}).types[CLUSTER_TYPE].by_name) == set(clusters)


def test_union_holds_old_and_new() -> None:
    """A Backend that changed has both its clusters; one that did not has one, by the newest policy."""
    changed = replace(FULL, backends={"openai": replace(OPENAI, http="1.1"), "local": FULL.backends["local"]})
    union = render_clusters([FULL, changed])
    assert cluster_name(OPENAI) in union
    assert cluster_name(changed.backends["openai"]) in union
    assert len(union) == len(FULL.backends) + 1


@pytest.mark.parametrize(
    ("http", "concurrency", "connections", "streams"),
    [
        ("auto", None, 2_048, 100),
        ("auto", 3, 3, 1),
        ("1.1", 500, 500, None),
        ("2", 50, 1, 50),
        ("2", 250, 3, 83),
        ("2", 1, 1, 1),
    ],
)
def test_concurrency_is_made_of_connections_and_streams(
    http: Any, concurrency: int | None, connections: int, streams: int | None
) -> None:
    """Connections times streams never exceed `quota.concurrency`; what waits is not refused."""
    cluster = one(Backend("b", "https://h/v1", quota=Quota(concurrency=concurrency), http=http))
    (limits,) = cluster["circuit_breakers"]["thresholds"]
    assert limits["max_connections"] == connections
    assert limits["max_pending_requests"] == limits["max_requests"] == 100_000
    options = cluster["typed_extension_protocol_options"][HTTP_OPTIONS]
    config = options.get("auto_config") or options["explicit_http_config"]
    if streams is not None:
        assert config["http2_protocol_options"]["max_concurrent_streams"] == streams


@pytest.mark.parametrize(
    ("url", "http", "kind"),
    [
        ("http://h/v1", "auto", "http_protocol_options"),
        ("http://h/v1", "2", "http2_protocol_options"),
        ("https://h/v1", "1.1", "http_protocol_options"),
    ],
)
def test_version_of_http_is_fixed_where_alpn_cannot_choose(url: str, http: Any, kind: str) -> None:
    """Plain text is HTTP/1.1 unless configured; a configured version is not negotiated."""
    options = one(Backend("b", url, http=http))["typed_extension_protocol_options"][HTTP_OPTIONS]
    assert list(options["explicit_http_config"]) == [kind]
    assert "auto_config" not in options


def test_budget_is_the_most_generous_in_use() -> None:
    """The share of retries is that of the most generous policy, in percent, within 0 and 100."""
    for budget, percent in ((0.5, 50.0), (7.0, 100.0)):
        layer = PolicyLayer("p", settings={"retry.budget": budget})
        (limits,) = one(OPENAI, policies=(layer,))["circuit_breakers"]["thresholds"]
        assert limits["retry_budget"]["budget_percent"] == {"value": percent}


def test_who_has_a_stand_in_has_no_budget_in_its_way() -> None:
    """Envoy counts the way to a fallback as a retry of the first, and all calls may have to go at once."""
    names = ("first", "second", "last", "alone")
    fallbacks = {"first": ("second", "not yet there", "last")}
    snapshot = Snapshot(
        "1",
        backends={name: replace(OPENAI, name=name) for name in names},
        models={
            name: Model(name, (Version("v", name, name),), fallbacks=fallbacks.get(name, ()))
            for name in names
        },
    )
    found = [_free_retries(cluster) for cluster in render_clusters([snapshot]).values()]
    assert found == [WAITING, WAITING, FREE_RETRIES, FREE_RETRIES]


def _free_retries(cluster: dict[str, Any]) -> int:
    (limits,) = cluster["circuit_breakers"]["thresholds"]
    free: int = limits["retry_budget"]["min_retry_concurrency"]
    return free


def test_unusable_url_names_its_backend() -> None:
    """A URL that is none is an error that names the Backend."""
    with pytest.raises(ValueError, match="odd"):
        one(Backend("odd", "http://h:70000/v1"))
