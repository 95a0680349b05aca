"""Sample values fit their schema."""

from __future__ import annotations

import pytest

from control_plane.tools.provider.schemas import sample

WORDS = ("river", "stone")


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        pytest.param({}, "river", id="anything"),
        pytest.param(None, {}, id="no-schema"),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
            {"a": "river", "b": "stone"},
            id="strings-take-turns",
        ),
        pytest.param({"type": "string", "enum": ["c", "f"]}, "c", id="enum"),
        pytest.param({"const": 7}, 7, id="const"),
        pytest.param({"type": "integer", "minimum": 5}, 5, id="minimum"),
        pytest.param({"type": "number"}, 1, id="number"),
        pytest.param({"type": "boolean"}, True, id="boolean"),
        pytest.param({"type": ["string", "null"]}, "river", id="nullable"),
        pytest.param({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 1, id="union"),
        pytest.param({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [1, 1], id="array"),
        pytest.param(
            {"$defs": {"p": {"const": "x"}}, "type": "object", "properties": {"q": {"$ref": "#/$defs/p"}}},
            {"q": "x"},
            id="reference",
        ),
        pytest.param({"$ref": "#"}, {}, id="reference-to-itself"),
        pytest.param({"type": "array", "items": 5, "minItems": "many"}, [None], id="nonsense"),
    ],
)
def test_sample(schema: object, value: object) -> None:
    """The value fits; nonsense in a schema gives some value rather than an error."""
    assert sample(schema, WORDS) == value
