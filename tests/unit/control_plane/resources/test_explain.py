"""Which Policy sets what."""

import pytest

from control_plane.resources.demo import demo_documents
from control_plane.resources.documents import Documents, check_documents
from control_plane.resources.explain import Effective, UnknownVersionError, explain
from control_plane.resources.kinds.policy import PolicySpec
from control_plane.resources.loading import RawDocument, read_text
from control_plane.resources.parsing import known_fields


def documents(*texts: str) -> Documents:
    """Check documents given as flow mappings of kind, name and spec."""
    return check_documents(read_text("\n---\n".join(texts).encode(), "p.yaml"))


def policy(name: str, spec: str) -> str:
    """Return a Policy's text."""
    return f"kind: Policy\nmetadata: {{name: {name}}}\nspec: {spec}"


def field(found: list[Effective], name: str) -> tuple[object, str | None]:
    """Return one field's value and Policy."""
    (item,) = [item for item in found if item.field == name]
    return item.value, item.policy


def test_without_a_policy_every_field_is_its_default() -> None:
    """In the form in which it would be written."""
    found = explain(Documents(), "m", "", "w")
    assert {item.policy for item in found} == {None}
    values = {item.field: item.value for item in found}
    assert values["failOpen"] is True
    assert values["cache.ttl"] == "24h"
    assert values["cache.memoryBytes"] == "64MiB"
    assert values["batch.maxWait"] == "200ms"
    assert values["retry.retryOn"] == ["connect", "reset", "429", "5xx"]
    assert values["parameters.temperature.max"] is None


def test_every_field_of_a_policy_is_explained_once() -> None:
    """Those that have no effect yet too; the target is no setting."""
    names = [item.field for item in explain(Documents(), "m", "", "w")]
    assert len(set(names)) == len(names)
    assert {name.split(".")[0] for name in names} == {*known_fields(PolicySpec, ())} - {"target"}


def test_the_most_specific_policy_wins_field_by_field() -> None:
    """Models first, then tiers, then workloads; each field by itself."""
    found = explain(
        documents(
            policy("all", "{failOpen: false, cache: {ttl: 90s, enabled: true}, hold: {max: 1m}}"),
            policy("prefix", "{target: {models: ['gpt-4*']}, cache: {ttl: 1500ms}}"),
            policy("exact", "{target: {models: [gpt-4o], tiers: [gold]}, parameters: {n: {max: 2}}}"),
            policy("shop", "{target: {workloads: [shop]}, failOpen: true}"),
        ),
        "gpt-4o",
        "gold",
        "shop",
    )
    assert field(found, "cache.ttl") == ("1500ms", "prefix")
    assert field(found, "cache.enabled") == (True, "all")
    assert field(found, "hold.max") == ("1m", "all")
    assert field(found, "parameters.n.max") == (2, "exact")
    assert field(found, "failOpen") == (True, "shop")


def test_an_alias_is_explained_as_its_model() -> None:
    """As requests by that name are treated; a name that nobody configured is one too."""
    found = documents(
        "kind: Backend\nmetadata: {name: b}\nspec: {url: 'http://h/v1'}",
        "kind: Model\nmetadata: {name: m}\nspec: {aliases: [fast], versions: [{name: v, backend: b}]}",
        policy("p", "{target: {models: [m]}, hold: {max: 0s}}"),
    )
    assert field(explain(found, "fast", "", "w"), "hold.max") == ("0s", "p")
    assert field(explain(found, "slow", "", "w"), "hold.max") == ("10s", None)


def test_the_demos_values_are_as_the_demo_writes_them() -> None:
    """Numbers without a fraction have none."""
    demo = check_documents(RawDocument(item, "demo") for item in demo_documents("http://h/v1"))
    found = explain(demo, "gpt-4o", "free", "any")
    assert field(found, "cache.maxTemperature") == (2, "demo")
    assert isinstance(field(found, "cache.maxTemperature")[0], int)
    assert field(found, "parameters.temperature.max") == (0.3, "demo")
    assert field(found, "session.ttl") == ("30m", "demo")


def test_what_a_version_says_itself_beats_every_policy() -> None:
    """Asked for that version; for another one, or none, Policies count."""
    found = documents(
        "{kind: Backend, metadata: {name: b}, spec: {url: 'http://h/v1'}}",
        "{kind: Model, metadata: {name: m}, spec: {aliases: [a], versions: ["
        "{name: v1, backend: b}, {name: v2, backend: b, policy: {batch: {maxSize: 20}}}]}}",
        policy("p", "{target: {models: [m]}, batch: {maxSize: 10, mode: native}}"),
    )
    for model in ("m", "a"):
        own = explain(found, model, "", "w", "v2")
        assert field(own, "batch.maxSize") == (20, "version v2")
        assert field(own, "batch.mode") == ("native", "p")
    for version in ("", "v1"):
        assert field(explain(found, "m", "", "w", version), "batch.maxSize") == (10, "p")
    with pytest.raises(UnknownVersionError) as refused:
        explain(found, "a", "", "w", "nobody")
    assert refused.value.known == ["v1", "v2"]
