"""The placeholders of one request, and the values that they stand for (pure).

Placeholders are plain ASCII without quotation marks, so that they fit into any text and any JSON string.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection
from typing import Final

from ext_proc.contract.entities import ENTITIES, Entity

PLACEHOLDER: Final = re.compile(rf"\[(?:{'|'.join(ENTITIES).upper()})_[0-9]+\]")
"""Any placeholder, also one that the caller has written."""


class Masks:
    """Numbers the values of one request in order of appearance, and puts them back into its answer.

    `taken` are placeholders that stand in the caller's own text: they are never given to a value, and so
    nothing is put in their place. `answers_json`: the request asks for an answer whose text is JSON.
    `items` counts what was masked. Its representation shows no value.
    """

    __slots__ = ("_given", "_last", "_longest", "_quoted", "_taken", "_values", "answers_json", "items")

    def __init__(self, taken: Collection[str] = (), *, answers_json: bool = False) -> None:
        self._taken = frozenset(taken)
        self._given: dict[tuple[Entity, str], str] = {}
        self._values: dict[str, str] = {}
        self._quoted: dict[str, str] = {}
        self._last: Counter[Entity] = Counter()
        self._longest = 0
        self.answers_json = answers_json
        self.items: Counter[Entity] = Counter()

    def __repr__(self) -> str:
        return f"Masks({dict(self.items)})"

    def mask(self, entity: Entity, value: str) -> str:
        """Return the placeholder of `value`, the same one each time."""
        self.items[entity] += 1
        given = self._given.get((entity, value))
        if given is None:
            given = self._given[entity, value] = self._next(entity)
            self._values[given] = value
            # As it is written within a JSON string.
            self._quoted[given] = json.dumps(value, ensure_ascii=False)[1:-1]
            self._longest = max(self._longest, len(given))
        return given

    def _next(self, entity: Entity) -> str:
        while True:
            self._last[entity] += 1
            placeholder = f"[{entity.upper()}_{self._last[entity]}]"
            if placeholder not in self._taken:
                return placeholder

    def restore(self, text: str, *, quoted: bool = False) -> str:
        """Return `text` with its values in their places; `quoted`: the text is JSON, they go into strings."""
        values = self._quoted if quoted else self._values
        return PLACEHOLDER.sub(lambda match: values.get(match.group(), match.group()), text)

    def whole_until(self, text: str) -> int:
        """Return where a placeholder begins that `text` may break off in the middle of, else its length."""
        at = text.rfind("[", max(0, len(text) - self._longest + 1))
        if at < 0:
            return len(text)
        tail = text[at:]
        begun = any(len(tail) < len(given) and given.startswith(tail) for given in self._values)
        return at if begun else len(text)
