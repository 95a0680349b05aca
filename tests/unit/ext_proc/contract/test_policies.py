"""Which policy setting is in force: precedence, field by field."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.contract.policies import DEFAULTS, Policy, rank, resolve_policy, settings_in_force
from ext_proc.contract.snapshot import PolicyLayer


@pytest.mark.parametrize(
    ("patterns", "name", "expected"),
    [
        pytest.param(("*",), "gpt-4o", (0, 0), id="star"),
        pytest.param(("gpt-4*",), "gpt-4o", (1, 5), id="prefix"),
        pytest.param(("gpt-4*", "gpt-*"), "gpt-4o", (1, 5), id="the longest prefix"),
        pytest.param(("*", "gpt-4o"), "gpt-4o", (2, 0), id="exact beats star"),
        pytest.param(("gpt-3",), "gpt-4o", None, id="no match"),
        pytest.param((), "gpt-4o", None, id="names nothing"),
    ],
)
def test_rank(patterns: tuple[str, ...], name: str, expected: tuple[int, int] | None) -> None:
    """A target matches as its most specific pattern does."""
    assert rank(patterns, name) == expected


def test_without_policies_nothing_that_changes_an_answer_is_on() -> None:
    """The defaults cache nothing, clamp nothing, refuse nothing."""
    policy = resolve_policy((), "m", "")
    assert policy is DEFAULTS
    assert not policy.cache.enabled
    assert policy.unknown_models == "pass"
    assert policy.retry.attempts == 3


def test_the_most_specific_wins_field_by_field() -> None:
    """One policy sets the TTL, a more specific one the switch; both hold."""
    layers = (
        PolicyLayer("narrow", models=("gpt-4o",), settings={"cache.enabled": True}),
        PolicyLayer("wide", settings={"cache.enabled": False, "cache.ttl_ms": 1000}),
    )
    policy = resolve_policy(layers, "gpt-4o", "")
    assert (policy.cache.enabled, policy.cache.ttl_ms) == (True, 1000)
    assert not resolve_policy(layers, "other", "").cache.enabled
    assert settings_in_force(layers, "gpt-4o", "")["cache.ttl_ms"] == (1000, "wide")


@pytest.mark.parametrize(
    ("stronger", "weaker"),
    [
        pytest.param({"models": ("m",)}, {"models": ("m*",), "tiers": ("gold",)}, id="models before tiers"),
        pytest.param(
            {"tiers": ("gold",)}, {"tiers": ("go*",), "workload_rank": (2, 0)}, id="tiers before workloads"
        ),
        pytest.param({"workload_rank": (2, 0)}, {"workload_rank": (1, 3)}, id="exact workload before prefix"),
    ],
)
def test_targets_are_compared_in_order(stronger: dict[str, object], weaker: dict[str, object]) -> None:
    """Models first, then tiers, then workloads; the order in which they are listed does not matter."""
    strong = PolicyLayer("s", settings={"retry.attempts": 5}, **stronger)  # type: ignore[arg-type]
    weak = PolicyLayer("w", settings={"retry.attempts": 2}, **weaker)  # type: ignore[arg-type]
    for layers in ((strong, weak), (weak, strong)):
        assert resolve_policy(layers, "m", "gold").retry.attempts == 5


def test_lists_and_nested_bounds_are_read() -> None:
    """A list setting becomes a tuple; a bound keeps the field it does not set."""
    layer = PolicyLayer("p", settings={"retry.retry_on": ("5xx",), "parameters.temperature.max": 0.3})
    policy = resolve_policy((layer,), "m", "")
    assert policy.retry.retry_on == ("5xx",)
    assert (policy.parameters.temperature.max, policy.parameters.temperature.default) == (0.3, None)


@given(st.text(max_size=20), st.text(max_size=20))
def test_unknown_settings_change_nothing(name: str, value: str) -> None:
    """A setting that a newer control plane knows is left out by an older data plane."""
    layer = PolicyLayer("p", settings={f"future_{name}": value, f"cache.future_{name}": value})
    assert resolve_policy((layer,), "m", "") == Policy()
