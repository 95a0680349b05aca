"""Policies beside each other."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from control_plane.resources.documents import Documents, check_documents
from control_plane.resources.kinds.policy import PolicySpec
from control_plane.resources.loading import RawDocument, read_text
from control_plane.resources.parsing import Document, parse_documents
from control_plane.resources.policies import fail_open_in_force, flat_settings, policy_problems
from control_plane.resources.problems import InvalidDocumentsError, Problem
from ext_proc.contract.policies import rank


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
        "cache.tiers": ("memory",),
        "coalesce.enabled": True,
        "retry.retry_on": ("429", "5xx"),
        "parameters.max_tokens.max": 10,
    }


names = st.sampled_from(["*", "a", "ab", "abc", "a*", "ab*", "b*", "b"])
targets = st.fixed_dictionaries({"workloads": st.lists(names, min_size=1, max_size=3)})
specs = st.fixed_dictionaries(
    {"target": targets}, optional={"failOpen": st.booleans(), "requireConsumer": st.booleans()}
)


def parsed_policies(found: list[dict[str, Any]]) -> list[Document]:
    """Return Policies p0, p1, … with the specs given."""
    raws = [
        RawDocument({"kind": "Policy", "metadata": {"name": f"p{index}"}, "spec": spec}, "x")
        for index, spec in enumerate(found)
    ]
    documents, problems = parse_documents(raws)
    assert not problems
    return documents


@given(st.lists(specs, max_size=6))
def test_ties_and_open_doors_are_those_that_comparing_each_with_each_finds(
    found: list[dict[str, Any]],
) -> None:
    """The quick way agrees with the plain one: every pair, every workload that is named."""
    documents = parsed_policies(found)
    policies = {item.name: item.spec for item in documents if isinstance(item.spec, PolicySpec)}
    expected = set()
    for index, (name, policy) in enumerate(policies.items()):
        for other in list(policies.values())[:index]:
            if set(policy.target.workloads) & set(other.target.workloads):
                fields = (policy.model_fields_set & other.model_fields_set) - {"target"}
                expected |= {(f"Policy/{name}", to_camel(field)) for field in fields}
    # Any workload may come: the names, and one below each prefix that has no Policy of its own.
    workloads = {name.replace("*", "\0") for policy in policies.values() for name in policy.target.workloads}
    if not expected:
        for name, policy in policies.items():
            mine = {item for item in workloads if rank(policy.target.workloads, item) is not None}
            if policy.require_consumer and any(fail_open_in_force(policies, item) for item in mine):
                expected.add((f"Policy/{name}", "requireConsumer"))
        problems = policy_problems(documents)
    else:
        problems = [
            problem for problem in policy_problems(documents) if "failing open" not in problem.message
        ]
    assert {(problem.document, problem.field.removeprefix("spec.")) for problem in problems} == expected


def test_thousands_of_policies_are_compared_in_a_moment() -> None:
    """Each with its own workload, each that a Consumer is required of: nothing is compared pair by pair."""
    documents = parsed_policies(
        [
            {
                "target": {"workloads": [f"w{index}", f"v{index}*"]},
                "requireConsumer": True,
                "failOpen": False,
                "hold": {"max": "1s"},
            }
            for index in range(5_000)
        ]
    )
    began = time.monotonic()
    assert policy_problems(documents) == []
    assert time.monotonic() - began < 10
