"""The snapshot in force and who holds which."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ext_proc.contract.routes import CallShape, RouteTerms, route_id
from ext_proc.contract.snapshot import Consumer, Limits, Model, PolicyLayer, Tier, Version
from ext_proc.snapshots import REMEMBERED, Loaded, SnapshotHolder
from tests.unit.ext_proc.exchanges import snapshot


def test_policies_and_routes_are_derived_once() -> None:
    """The same names give the same objects, and the ids are those that the agent renders."""
    policy_layer = PolicyLayer("p", models=("m",), settings={"retry.attempts": 5})
    loaded = Loaded(snapshot(policies=(policy_layer,)))
    policy = loaded.policy("m", "")
    backend = loaded.default_backend
    assert backend is not None
    assert policy is loaded.policy("m", "")
    assert loaded.policy("x", "") is loaded.policy("y", "")
    expected = route_id(backend, RouteTerms(policy.retry, policy.hold), CallShape.JSON)
    assert loaded.route(backend, policy, CallShape.JSON) == expected
    assert loaded.route(backend, loaded.policy("x", ""), CallShape.JSON) != expected


def test_invented_names_do_not_grow_memory() -> None:
    """After many invented models the routes are still right and the memory bounded."""
    loaded = Loaded(snapshot())
    for number in range(REMEMBERED + 50):
        loaded.policy(f"invented-{number}", "")
    assert len(loaded._policies) == REMEMBERED
    assert loaded.policy("one more", "") is loaded.policy("another", "")


def test_tiers_are_tried_by_priority() -> None:
    """A tier without a header match is for Consumers only; the highest priority comes first."""
    tiers = {
        "low": Tier("low", {"x": "1"}, 1),
        "high": Tier("high", {"x": "1"}, 9),
        "consumers": Tier("consumers", {}, 99),
    }
    assert [tier.name for tier in Loaded(snapshot(tiers=tiers)).tiers] == ["high", "low"]


@given(st.lists(st.sampled_from(["acquire", "release", "replace"]), max_size=60))
def test_the_oldest_in_use_is_the_oldest_that_somebody_holds(steps: list[str]) -> None:
    """Against a plain list of what is held, and told whenever it moves on."""
    told: list[str] = []
    holder = SnapshotHolder(told.append)
    assert holder.acquire() is None
    assert holder.oldest_in_use() == ""
    number = 0
    holder.replace(snapshot(version="0"))
    held: list[Loaded] = []
    for step in steps:
        if step == "acquire":
            loaded = holder.acquire()
            assert loaded is not None
            held.append(loaded)
        elif step == "release" and held:
            holder.release(held.pop(0))
        elif step == "replace":
            number += 1
            holder.replace(replace(snapshot(), version=str(number)))
        versions = [int(loaded.snapshot.version) for loaded in held]
        assert holder.oldest_in_use() == str(min([*versions, number]))
    while held:
        holder.release(held.pop(0))
    assert holder.oldest_in_use() == str(number)
    assert told == sorted(told, key=int)


def test_accounts_are_derived_once() -> None:
    """For each Tier, Consumer and Model; a snapshot without limits is known as such."""
    loaded = Loaded(snapshot(tiers={"gold": Tier("gold", limits=Limits(1))}))
    assert loaded.limited
    assert loaded.accounts("gold", None, None) is loaded.accounts("gold", None, None)
    assert loaded.accounts("gold", Consumer("a", "t"), None)[0].key == "tier:gold/a"
    for number in range(REMEMBERED + 50):
        loaded.accounts(f"invented-{number}", None, None)
    assert len(loaded._accounts) == REMEMBERED
    assert not Loaded(snapshot()).limited


def test_a_versions_policy_is_derived_once() -> None:
    """One object for each, so that its identity can stand for it; without settings it is the Model's."""
    plain, own = Version("v1", "b", "m"), Version("v2", "b", "m", settings={"retry.attempts": 7})
    model = Model("m", (plain, own))
    loaded = Loaded(snapshot(models={"m": model}))
    assert loaded.policy_of(model, plain, "") is loaded.policy("m", "")
    policy = loaded.policy_of(model, own, "")
    assert policy is loaded.policy_of(model, own, "")
    assert (policy.retry.attempts, policy.hold) == (7, loaded.policy("m", "").hold)
