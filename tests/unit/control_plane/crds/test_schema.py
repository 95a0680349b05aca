"""The schemas of specs: what they take is what the models take, as far as a schema can know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from control_plane.crds.descriptions import DESCRIPTIONS
from control_plane.crds.schema import DescriptionMissingError, spec_schema
from control_plane.resources.demo import demo_documents
from control_plane.resources.kinds import KINDS
from control_plane.resources.kinds.policy import PolicySpec
from control_plane.resources.kinds.spec import Spec
from tests.unit.control_plane.crds.structural import defaulted, is_right

SCHEMAS = {kind: spec_schema(spec) for kind, spec in KINDS.items()}

SMALLEST: dict[str, dict[str, Any]] = {
    "Backend": {"url": "https://api.example.com/v1"},
    "Model": {"versions": [{"name": "stable", "backend": "openai"}]},
    "Tier": {"limits": {"requestsPerMinute": 60}},
    "Consumer": {"tenant": "team-a"},
    "Policy": {"failOpen": False},
    "Release": {"model": "gpt-4o-mini", "from": "stable", "to": "candidate"},
    "Pin": {"model": "gpt-4o-mini", "match": {"lastUserMessage": "hi"}, "answer": "Welcome!"},
}

WRONG: list[tuple[str, dict[str, Any]]] = [
    ("Backend", {"url": "https://a", "ulr": 1}),
    ("Backend", {"url": "https://a", "protocol": "opneai"}),
    ("Backend", {"url": "https://a", "timeouts": {"connect": "5 s"}}),
    ("Backend", {"url": "https://a", "quota": {"requestsPerMinute": 0}}),
    ("Backend", {"url": "https://a", "credentials": {"env": "sk-not-a-name"}}),
    ("Model", {"versions": []}),
    ("Model", {"versions": [{"name": "a", "backend": "b", "weight": -1}]}),
    ("Tier", {"match": {"header": {"x": 1}}}),
    ("Tier", {"limits": {"concurrency": 1.5}}),
    ("Consumer", {}),
    ("Policy", {"cache": {"semantic": {"maxErrorRate": 1.01}}}),
    ("Policy", {"cache": {"memoryBytes": 0}}),
    ("Policy", {"cache": {"memoryBytes": "0MiB"}}),
    ("Policy", {"cache": {"memoryBytes": "64 MiB"}}),
    ("Policy", {"batch": {"maxSize": 0}}),
    ("Policy", {"batch": {"mode": "Native"}}),
    ("Policy", {"target": {"models": ["a*b"]}}),
    ("Policy", {"retry": {"retryOn": ["sometimes"]}}),
    ("Release", {"model": "m", "from": "a", "to": "b", "steps": [0.5]}),
    ("Release", {"model": "m", "from": "a", "to": "b", "gates": {"cost": {"maxRatio": 0}}}),
    ("Pin", {"model": "m", "match": {}, "answer": "x"}),
]


def fields(schema: dict[str, Any], path: str = "spec") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every schema within, with its path."""
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from fields(field, f"{path}.{name}")
    for part in ("items", "additionalProperties"):
        if part in schema:
            yield from fields(schema[part], f"{path}[]")


@pytest.mark.parametrize("kind", KINDS)
def test_the_smallest_spec_is_right_and_stays_so_with_the_defaults(kind: str) -> None:
    """What a schema fills in changes nothing: the model reads the same from both."""
    written = defaulted(SCHEMAS[kind], SMALLEST[kind])
    assert is_right(SCHEMAS[kind], SMALLEST[kind])
    assert is_right(SCHEMAS[kind], written)
    assert KINDS[kind].model_validate(written) == KINDS[kind].model_validate(SMALLEST[kind])


@pytest.mark.parametrize("document", demo_documents("http://127.0.0.1:1/v1"), ids=lambda it: it["kind"])
def test_the_demo_is_right(document: dict[str, Any]) -> None:
    """Every document of the demo could be a custom resource."""
    assert is_right(SCHEMAS[document["kind"]], document["spec"])


@pytest.mark.parametrize(("kind", "spec"), WRONG, ids=[str(spec) for _, spec in WRONG])
def test_what_the_models_refuse_the_schema_refuses(kind: str, spec: dict[str, Any]) -> None:
    """Unknown fields, wrong enums, rates above 1, sizes below 1 and bad durations come no further."""
    with pytest.raises(ValueError):
        KINDS[kind].model_validate(spec)
    assert not is_right(SCHEMAS[kind], spec)


@pytest.mark.parametrize("kind", KINDS)
def test_every_schema_is_structural_described_and_bounded(kind: str) -> None:
    """Each field has a type and a description, nothing unknown is kept, each rule has a worst case."""
    for path, schema in fields(SCHEMAS[kind]):
        assert "type" in schema or schema.get("x-kubernetes-int-or-string"), path
        assert "x-kubernetes-preserve-unknown-fields" not in schema, path
        assert not {"$ref", "anyOf", "oneOf", "allOf", "const", "title"} & schema.keys(), path
        if path != "spec" and not path.endswith("[]"):
            assert schema["description"], path
        match schema.get("type"):
            case "string" if "enum" not in schema:
                assert "maxLength" in schema, path
            case "array":
                assert schema["maxItems"] >= 1, path
            case "object":
                assert "properties" in schema or "maxProperties" in schema, path


def test_a_policy_has_no_defaults() -> None:
    """What one Policy leaves out another may say, so nothing is filled in."""
    assert not [path for path, schema in fields(SCHEMAS["Policy"]) if "default" in schema]


def test_no_description_is_left_over() -> None:
    """Each line of the table belongs to a field that there is."""
    written: set[str] = set()

    def walk(spec: type[Spec]) -> None:
        for item in spec.model_fields.values():
            written.add(f"{spec.__name__}.{item.alias}")

    classes = list(Spec.__subclasses__())
    while classes:
        spec = classes.pop()
        if spec.__module__.startswith("control_plane.resources.kinds"):
            walk(spec)
        classes += spec.__subclasses__()
    assert set(DESCRIPTIONS) <= written


def test_a_field_without_a_description_is_named() -> None:
    """A new field of a model has to be described before it can be in a definition."""

    class Extended(PolicySpec):
        new: bool = False

    with pytest.raises(DescriptionMissingError, match=r"Extended\.\w+ has no line"):
        spec_schema(Extended)


def test_rules_stand_where_a_schema_cannot_know() -> None:
    """One way to a key, double names, increasing steps, from and to: each has its rule or list type."""
    backend, model, release = SCHEMAS["Backend"], SCHEMAS["Model"], SCHEMAS["Release"]
    credentials = backend["properties"]["credentials"]["x-kubernetes-validations"]
    assert "exactly one" in credentials[0]["message"]
    assert model["properties"]["versions"]["x-kubernetes-list-map-keys"] == ["name"]
    assert "isSorted" in release["properties"]["steps"]["x-kubernetes-validations"][0]["rule"]
    assert release["x-kubernetes-validations"][0]["rule"] == "self.from != self.to"
    pace = SCHEMAS["Policy"]["properties"]["cache"]["properties"]["streamPace"]
    assert pace["x-kubernetes-validations"][0]["message"] == "must be at most 1s"
