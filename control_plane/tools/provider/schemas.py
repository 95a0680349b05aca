"""A deterministic value for a JSON schema: tool arguments and structured outputs (pure).

It covers what tools use in practice (objects, arrays, enums, consts, unions, local `$ref`); a keyword it
does not know is left out of account, so the value then fits only the rest of the schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 12
Schema = Mapping[str, Any]


def sample(schema: object, words: tuple[str, ...]) -> Any:
    """Return a value that fits `schema`; strings are taken from `words` (not empty) in turn."""
    if not isinstance(schema, dict):
        return {}
    turn = _Turn(words)
    value = _value(schema, schema, turn, 0)
    return {} if value is None else value


class _Turn:
    def __init__(self, words: tuple[str, ...]) -> None:
        self._words = words
        self._next = 0

    def word(self) -> str:
        word = self._words[self._next % len(self._words)]
        self._next += 1
        return word


def _value(schema: object, root: Schema, turn: _Turn, depth: int) -> Any:
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return None
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _value(_resolve(reference, root), root, turn, depth + 1)
    if "const" in schema:
        return schema["const"]
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return choices[0]
    for union in ("anyOf", "oneOf"):
        options = schema.get(union)
        if isinstance(options, list) and options:
            return _value(options[0], root, turn, depth + 1)
    kind = schema.get("type")
    if isinstance(kind, list) and kind:
        kind = kind[0]
    if kind == "object" or (kind is None and "properties" in schema):
        properties = schema.get("properties")
        return {
            name: _value(part, root, turn, depth + 1)
            for name, part in (properties.items() if isinstance(properties, dict) else ())
        }
    if kind == "array":
        count = max(1, _whole(schema.get("minItems")))
        return [_value(schema.get("items", {}), root, turn, depth + 1) for _ in range(min(count, 100))]
    return _scalar(kind, schema, turn)


def _scalar(kind: object, schema: Schema, turn: _Turn) -> Any:
    if kind == "string" or kind is None:
        return turn.word()
    if kind in {"integer", "number"}:
        return _whole(schema.get("minimum")) or 1
    return True if kind == "boolean" else None


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | float) and abs(value) < 1e9 else 0


def _resolve(reference: str, root: Schema) -> object:
    node: object = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        if step:
            node = node.get(step) if isinstance(node, dict) else None
    return node
