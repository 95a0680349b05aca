"""A pod while it is changed: the changed copy, and the JSON Patch that makes it from the original (pure).

https://www.rfc-editor.org/rfc/rfc6902
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

Operation = dict[str, Any]
Place = str | int

END: Final = "-"


def pointer(*places: Place) -> str:
    """Return the JSON Pointer (RFC 6901) to `places`, such as `/metadata/labels/a.b~1c`."""
    return "".join("/" + str(place).replace("~", "~0").replace("/", "~1") for place in places)


class Draft:
    """One pod and what was added to it.

    Args:
        pod: the original, left as it is. The copy shares with it what is not added to.

    Attributes:
        pod: the copy with every addition.
        patch: the additions, in order.
    """

    def __init__(self, pod: Mapping[str, Any]) -> None:
        self.pod: dict[str, Any] = dict(pod)
        self.patch: list[Operation] = []
        self._own = {id(self.pod)}

    def insert(self, where: Sequence[Place], index: int, item: Any) -> None:
        """Put `item` into the list at `where`, which is made when it is absent or null."""
        items: list[Any] = self._reach(where, list)
        items.insert(index, item)
        self._note((*where, index), item)

    def append(self, where: Sequence[Place], item: Any) -> None:
        """Put `item` at the end of the list at `where`, which is made when it is absent or null."""
        items: list[Any] = self._reach(where, list)
        items.append(item)
        self._note((*where, END), item)

    def set(self, where: Sequence[Place], key: str, value: Any) -> None:
        """Set `key` in the mapping at `where`, which is made when it is absent or null."""
        mapping: dict[str, Any] = self._reach(where, dict)
        mapping[key] = value
        self._note((*where, key), value)

    def _reach(self, where: Sequence[Place], kind: type[list[Any]] | type[dict[str, Any]]) -> Any:
        """Return what is at `where`, of the copy alone. What is absent on the way there is made."""
        found: Any = self.pod
        for depth, place in enumerate(where, 1):
            below = found[place] if isinstance(place, int) else found.get(place)
            if below is None:
                made = kind if depth == len(where) else dict
                below = found[place] = made()
                self._own.add(id(below))
                self._note(where[:depth], made())
            elif id(below) not in self._own:
                below = found[place] = copy.copy(below)
                self._own.add(id(below))
            found = below
        return found

    def _note(self, where: Sequence[Place], value: Any) -> None:
        self.patch.append({"op": "add", "path": pointer(*where), "value": value})
