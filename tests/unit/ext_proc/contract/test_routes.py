"""Route ids and cluster names: derived from content, enumerable by the agent."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.contract import routes
from ext_proc.contract.policies import Policy, resolve_policy, with_settings
from ext_proc.contract.routes import CallShape, RouteTerms, cluster_name, route_id, terms_in_use
from ext_proc.contract.snapshot import Backend, Model, PolicyLayer, Snapshot, Tier, Version

BACKEND = Backend("b", "https://h/v1")
NAMES = st.sampled_from(["", "m", "gpt-4o", "gpt-4", "gpt-3.5", "g", "other"])
PATTERNS = st.sampled_from(["*", "gpt-*", "gpt-4*", "gpt-4", "gpt-4o", "m", "g*", "g"])
LAYERS = st.lists(
    st.builds(
        PolicyLayer,
        name=st.just("p"),
        models=st.lists(PATTERNS, min_size=1, max_size=2).map(tuple),
        tiers=st.lists(PATTERNS, min_size=1, max_size=2).map(tuple),
        settings=st.dictionaries(
            st.sampled_from(["retry.attempts", "hold.max_ms", "cache.ttl_ms"]), st.integers(1, 9), min_size=1
        ),
    ),
    max_size=5,
).map(tuple)


def test_a_changed_backend_has_another_cluster_and_other_routes() -> None:
    """So the old and the new stand side by side while requests move over."""
    moved = replace(BACKEND, url="https://elsewhere/v1")
    assert cluster_name(moved) != cluster_name(BACKEND)
    assert route_id(moved, RouteTerms(), CallShape.JSON) != route_id(BACKEND, RouteTerms(), CallShape.JSON)


def test_each_shape_has_its_own_route() -> None:
    """JSON, stream and raw calls have different time limits."""
    assert len({route_id(BACKEND, RouteTerms(), shape) for shape in CallShape}) == len(CallShape)


@given(
    LAYERS,
    NAMES,
    NAMES,
    st.dictionaries(st.sampled_from(["retry.attempts", "hold.max_ms"]), st.integers(1, 9)),
)
def test_the_agent_renders_every_route_that_the_processor_may_choose(
    layers: tuple[PolicyLayer, ...], model: str, tier: str, own: dict[str, int]
) -> None:
    """Whatever model and tier come, configured or invented, their terms are listed; a version's own too."""
    snapshot = Snapshot(
        version="v",
        backends={"b": BACKEND},
        models={"m": Model("m", (Version("v", "b", "m", settings=own),))},
        tiers={"gpt-4": Tier("gpt-4")},
        policies=layers,
    )
    policy, versions = (
        resolve_policy(layers, model, tier),
        with_settings(resolve_policy(layers, "m", tier), own),
    )
    assert RouteTerms(policy.retry, policy.hold) in set(terms_in_use(snapshot))
    assert RouteTerms(versions.retry, versions.hold) in set(terms_in_use(snapshot))


def test_a_prefix_may_be_the_name_of_another_policy() -> None:
    """A longer name that nobody has configured gets what `gpt-4*` says all the same."""
    layers = (
        PolicyLayer("all", models=("gpt-4*",), settings={"retry.attempts": 5}),
        PolicyLayer("one", models=("gpt-4",), settings={"retry.attempts": 7}),
    )
    snapshot = Snapshot(version="v", backends={"b": BACKEND}, policies=layers)
    assert {terms.retry.attempts for terms in terms_in_use(snapshot)} == {5, 7, Policy().retry.attempts}


def test_models_that_no_policy_tells_apart_are_asked_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy of thousands of Models is rendered at every change, in every pod."""
    asked: list[str] = []

    def resolve(layers: list[PolicyLayer], model: str, tier: str) -> Policy:
        asked.append(model)
        return resolve_policy(layers, model, tier)

    monkeypatch.setattr(routes, "resolve_policy", resolve)
    models = {name: Model(name, (Version("v", "b", "m"),)) for name in (f"m{n}" for n in range(2000))}
    layers = (
        PolicyLayer("all", models=("*",), settings={"retry.attempts": 2}),
        PolicyLayer("some", models=("m1*", "m7"), settings={"retry.attempts": 3}),
    )
    snapshot = Snapshot(version="v", backends={"b": BACKEND}, models=models, policies=layers)
    assert {terms.retry.attempts for terms in terms_in_use(snapshot)} == {2, 3}
    assert len(asked) == 3  # by neither pattern, by the prefix, by the name
