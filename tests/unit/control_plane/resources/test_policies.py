"""Policies beside each other."""

import pytest

from control_plane.resources.documents import Documents, check_documents
from control_plane.resources.loading import read_text
from control_plane.resources.policies import fail_open_in_force, flat_settings
from control_plane.resources.problems import InvalidDocumentsError, Problem


def check(*specs: str) -> Documents:
    """Check Policies p0, p1, … with the specs given."""
    texts = [f"kind: Policy\nmetadata: {{name: p{i}}}\nspec: {spec}\n" for i, spec in enumerate(specs)]
    return check_documents(read_text("---\n".join(texts).encode(), "p.yaml"))


def refusals(*specs: str) -> tuple[Problem, ...]:
    """Return why the Policies are refused; () when they are not."""
    try:
        check(*specs)
    except InvalidDocumentsError as error:
        return error.problems
    return ()


@pytest.mark.parametrize(
    ("first", "second", "field"),
    [
        ("{cache: {ttl: 1h}}", "{cache: {ttl: 2h}}", "spec.cache.ttl"),
        ("{cache: {ttl: 1h}}", "{cache: {ttl: 1h}}", "spec.cache.ttl"),
        (
            "{target: {models: [a, 'gpt-4*']}, hold: {max: 1s}}",
            "{target: {models: ['gpt-4*', b]}, hold: {max: 2s}}",
            "spec.hold.max",
        ),
        ("{failOpen: true}", "{failOpen: false}", "spec.failOpen"),
        (
            "{target: {workloads: [shop]}, unknownModels: pass}",
            "{target: {workloads: [shop]}, unknownModels: refuse}",
            "spec.unknownModels",
        ),
        (
            "{parameters: {temperature: {max: 1}}}",
            "{parameters: {temperature: {max: 2}}}",
            "spec.parameters.temperature.max",
        ),
    ],
)
def test_an_exact_tie_on_a_field_is_refused_naming_both(first: str, second: str, field: str) -> None:
    """Nothing decides between two targets that are exactly as specific."""
    (problem,) = refusals(first, second)
    assert (problem.document, problem.field) == ("Policy/p1", field)
    assert "Policy/p0" in problem.message


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("{cache: {ttl: 1h}}", "{cache: {enabled: true}}"),
        ("{cache: {ttl: 1h}}", "{target: {models: ['gpt-4*']}, cache: {ttl: 2h}}"),
        (
            "{target: {models: ['gpt*']}, cache: {ttl: 1h}}",
            "{target: {models: ['gpt-4*']}, cache: {ttl: 2h}}",
        ),
        ("{target: {models: [a]}, cache: {ttl: 1h}}", "{target: {models: [b]}, cache: {ttl: 2h}}"),
        (
            "{target: {models: [a], tiers: [x]}, cache: {ttl: 1h}}",
            "{target: {models: [a], tiers: [y]}, cache: {ttl: 2h}}",
        ),
        ("{failOpen: true}", "{target: {workloads: [shop]}, failOpen: false}"),
    ],
)
def test_policies_that_the_order_decides_stand_beside_each_other(first: str, second: str) -> None:
    """Other fields, or targets of another rank, or none in common: no tie."""
    assert not refusals(first, second)


@pytest.mark.parametrize(
    "specs",
    [
        ("{requireConsumer: true}",),
        ("{requireConsumer: true, failOpen: true}",),
        ("{requireConsumer: true, failOpen: false}", "{target: {workloads: ['shop*']}, failOpen: true}"),
        (
            "{target: {workloads: ['shop*']}, requireConsumer: true}",
            "{target: {workloads: [shop]}, failOpen: false}",
        ),
        ("{target: {models: [m]}, requireConsumer: true}",),
    ],
)
def test_require_consumer_needs_fail_closed_wherever_it_holds(specs: tuple[str, ...]) -> None:
    """Failing open would let callers in that requireConsumer keeps out."""
    (problem,) = refusals(*specs)
    assert (problem.document, problem.field) == ("Policy/p0", "spec.requireConsumer")
    assert "failOpen: false" in problem.message


@pytest.mark.parametrize(
    "specs",
    [
        ("{requireConsumer: true, failOpen: false}",),
        ("{target: {models: [m]}, requireConsumer: true}", "{failOpen: false}"),
        ("{target: {workloads: [shop]}, requireConsumer: true, failOpen: false}", "{failOpen: true}"),
        ("{requireConsumer: false}",),
    ],
)
def test_require_consumer_is_accepted_where_the_workload_fails_closed(specs: tuple[str, ...]) -> None:
    """failOpen may be set by another Policy of the same workload."""
    assert not refusals(*specs)


def test_fail_open_is_the_most_specific_policys() -> None:
    """An exact workload beats a longer prefix beats a shorter one beats none."""
    policies = dict(
        check(
            "{failOpen: false}",
            "{target: {workloads: ['shop*']}, failOpen: true}",
            "{target: {workloads: ['shop-eu*']}, failOpen: false}",
            "{target: {workloads: [shop-eu-1]}, failOpen: true}",
        ).policies
    )
    found = {name: fail_open_in_force(policies, name) for name in ("x", "shop-us", "shop-eu-2", "shop-eu-1")}
    assert found == {"x": False, "shop-us": True, "shop-eu-2": False, "shop-eu-1": True}
    assert fail_open_in_force({}, "x")


def test_only_built_fields_that_are_set_become_settings() -> None:
    """Defaults, targets, failOpen and what is not built yet stay out."""
    policy = check(
        "{target: {models: [a]}, requireConsumer: false, cache: {enabled: true, ttl: 1m, tiers: [memory]},"
        " retry: {retryOn: [429, 5xx]}, coalesce: {enabled: true}, parameters: {maxTokens: {max: 10}}}"
    ).policies["p0"]
    assert flat_settings(policy) == {
        "require_consumer": False,
        "cache.enabled": True,
        "cache.ttl_ms": 60_000,
        "retry.retry_on": ("429", "5xx"),
        "parameters.max_tokens.max": 10,
    }
