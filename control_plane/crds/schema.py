"""From the model of a spec to its structural schema in OpenAPI 3.0, as custom resources have them (pure).

Types, bounds and enums are the models' own; descriptions and rules stand beside in tables.
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from control_plane.crds.descriptions import DESCRIPTIONS
from control_plane.crds.rules import FIELDS, MAX_ITEMS, RULES, Rule
from control_plane.resources.kinds.spec import Spec
from control_plane.resources.parsing import spec_in
from control_plane.resources.quantities import (
    duration_text,
    parse_duration_ms,
    parse_positive_duration_ms,
    parse_size_bytes,
)

DURATION: Final = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
# Not all digits may be 0: the least size is a byte.
SIZE: Final = r"^(0*[1-9][0-9]*(\.[0-9]+)?|0+\.0*[1-9][0-9]*)(B|KiB|MiB|GiB|kB|KB|MB|GB)$"
_MAX_TEXT: Final = 64
_RULES: Final = "x-kubernetes-validations"
# What structural schemas have no place for.
_LEFT_OUT: Final = frozenset({"title", "description", "additionalProperties", "default"})
# Classes in which "left out" is not "as by default".
_UNSET_MATTERS: Final = frozenset({"PolicySpec", "VersionPolicy"})
# pydantic's names for bounds of what it takes for no number.
_PLAIN: Final = {"ge": "minimum", "le": "maximum"}


_DURATION: Final = {"type": "string", "pattern": DURATION, "maxLength": _MAX_TEXT}
_POSITIVE: Final = {_RULES: [asdict(Rule("duration(self) >= duration('1ms')", "must be at least 1ms"))]}
_TEXTS: Final[Mapping[Callable[..., int], JsonSchemaValue]] = {
    parse_duration_ms: _DURATION,
    parse_positive_duration_ms: _DURATION | _POSITIVE,
    parse_size_bytes: {"x-kubernetes-int-or-string": True, "pattern": SIZE, "maxLength": _MAX_TEXT},
}


class DescriptionMissingError(Exception):
    """A field has no description; the message names it."""


class _AsWritten(GenerateJsonSchema):
    """Durations and sizes are text in documents, though numbers inside."""

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> JsonSchemaValue:
        """Return what is written for the fields that are parsed from text, else what pydantic says."""
        function: Any = schema["function"]["function"]
        if function in _TEXTS:
            return dict(_TEXTS[function])
        return super().function_before_schema(schema)


def spec_schema(spec: type[Spec]) -> dict[str, Any]:
    """Return the schema of `spec`.

    What a Policy leaves out may be another's to say, so nothing in it has a default.

    Raises:
        DescriptionMissingError: one of its fields has no description.
    """
    whole = spec.model_json_schema(schema_generator=_AsWritten)
    classes = {found.__name__: found for found in _classes(spec)}
    return _Writer(classes, whole.get("$defs", {})).mapping(spec, whole)


class _Writer:
    """Writes one spec's schema; knows its classes and their JSON schemas by name."""

    def __init__(self, classes: Mapping[str, type[Spec]], schemas: Mapping[str, dict[str, Any]]) -> None:
        self._classes = classes
        self._schemas = schemas

    def mapping(
        self, spec: type[Spec], schema: Mapping[str, Any], *, defaults: bool = True
    ) -> dict[str, Any]:
        """Return the structural schema of a class."""
        name = spec.__name__
        defaults = defaults and name not in _UNSET_MATTERS
        fields = {item.alias or attribute: item for attribute, item in spec.model_fields.items()}
        written: dict[str, Any] = {"type": "object"}
        if schema.get("required"):
            written["required"] = list(schema["required"])
        written["properties"] = {
            field: self._field(
                f"{name}.{field}", schema["properties"][field], fields[field].default, defaults
            )
            for field in fields
        }
        if name in RULES:
            written[_RULES] = [asdict(rule) for rule in RULES[name]]
        return written

    def _field(self, path: str, schema: Mapping[str, Any], default: object, defaults: bool) -> dict[str, Any]:
        if path not in DESCRIPTIONS:
            raise DescriptionMissingError(f"{path} has no line in control_plane.crds.descriptions")
        written = _merged(self._type(schema, defaults), FIELDS.get(path, {}))
        if defaults:
            written |= _default(written, default)
        return {"description": DESCRIPTIONS[path], **written}

    def _type(self, schema: Mapping[str, Any], defaults: bool) -> dict[str, Any]:
        if "anyOf" in schema:
            # Only "or null" is meant: a field is left out instead.
            (schema,) = (way for way in schema["anyOf"] if way.get("type") != "null")
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name not in self._classes:
                return self._type(self._schemas[name], defaults)
            return self.mapping(self._classes[name], self._schemas[name], defaults=defaults)
        written = {_PLAIN.get(key, key): value for key, value in schema.items() if key not in _LEFT_OUT}
        if "exclusiveMinimum" in written:
            written |= {"minimum": written["exclusiveMinimum"], "exclusiveMinimum": True}
        match written.get("type"):
            case "string" if "maximum" in written:
                written[_RULES] = [*written.get(_RULES, ()), _at_most(written.pop("maximum"))]
            case "integer":
                written["format"] = "int64"
            case "array":
                written["items"] = self._type(schema["items"], defaults)
                written.setdefault("maxItems", MAX_ITEMS)
            case "object":
                written["additionalProperties"] = self._type(schema["additionalProperties"], defaults)
        return written


def _classes(spec: type[Spec]) -> Iterator[type[Spec]]:
    yield spec
    for item in spec.model_fields.values():
        found = spec_in(item.annotation)
        if found is not None:
            yield from _classes(found)


def _at_most(milliseconds: int) -> dict[str, str]:
    text = duration_text(milliseconds)
    return asdict(Rule(f"duration(self) <= duration('{text}')", f"must be at most {text}"))


def _default(written: Mapping[str, Any], default: object) -> dict[str, Any]:
    """Return the default as written: nothing for none, `{}` for a mapping whose fields have their own."""
    if isinstance(default, Spec):
        inner = any("default" in field for field in written["properties"].values())
        return {"default": {}} if inner and not written.get("required") else {}
    if written.get("pattern") == DURATION and isinstance(default, int):
        return {"default": duration_text(default)}
    if isinstance(default, tuple) and default:
        return {"default": list(default)}
    if isinstance(default, float) and default.is_integer():
        return {"default": int(default)}
    if isinstance(default, bool | int | float | str):
        return {"default": default}
    return {}


def _merged(written: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(written)
    for key, value in more.items():
        if isinstance(value, Mapping):
            merged[key] = _merged(merged.get(key, {}), value)
        elif key == _RULES:
            merged[key] = [asdict(rule) for rule in value]
        else:
            merged[key] = value
    return merged
