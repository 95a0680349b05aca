"""Schemas of what the API takes and gives."""

from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator, meta

from control_plane.api.examples import EXAMPLES
from control_plane.api.schemas import component_schemas
from control_plane.resources.demo import demo_documents


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    """Return all of them."""
    return component_schemas()


def validator(schemas: dict[str, Any], kind: str) -> Draft202012Validator:
    """Return what checks a document of `kind`."""
    return Draft202012Validator({"$ref": f"#/components/schemas/{kind}", "components": {"schemas": schemas}})


def test_schemas_are_schemas(schemas: dict[str, Any]) -> None:
    """Each by itself."""
    for schema in schemas.values():
        meta.validate(schema)


@pytest.mark.parametrize(
    "document",
    [*EXAMPLES.values(), *demo_documents("http://127.0.0.1:1/v1")],
    ids=lambda document: f"{document['kind']}/{document['metadata']['name']}",
)
def test_what_is_right_is_right_by_schema(schemas: dict[str, Any], document: dict[str, Any]) -> None:
    """Durations and sizes as they are written, not as they are inside."""
    assert list(validator(schemas, document["kind"]).iter_errors(document)) == []


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Policy", {"cache": {"ttl": 86_400_000}}),
        ("Policy", {"cache": {"ttl": "1 day"}}),
        ("Policy", {"cache": {"memoryBytes": "64"}}),
        ("Policy", {"chache": {}}),
        ("Backend", {"url": "http://x", "http": "3"}),
        ("Backend", {}),
    ],
)
def test_what_is_wrong_is_wrong_by_schema(schemas: dict[str, Any], kind: str, spec: dict[str, Any]) -> None:
    """As far as a schema can know."""
    document = {"kind": kind, "metadata": {"name": "x"}, "spec": spec}
    assert list(validator(schemas, kind).iter_errors(document))
