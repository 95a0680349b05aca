"""Fields that are accepted and have no effect yet, so that whoever writes one is told.

A field leaves this list with the change that builds its capability.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from control_plane.resources.kinds.spec import Spec
from control_plane.resources.loading import FieldPath
from control_plane.resources.parsing import Document
from control_plane.resources.problems import Problem

MESSAGE: Final = "is accepted but has no effect yet"

# Written paths within `spec`, list positions left out; a path stands for everything below it, () for all.
UNBUILT: Final[dict[str, frozenset[tuple[str, ...]]]] = {
    "Backend": frozenset(),
    "Model": frozenset(),
    "Tier": frozenset(),
    "Consumer": frozenset(),
    "Policy": frozenset(),
    "Release": frozenset(),
    "Pin": frozenset(),
}


def is_unbuilt(kind: str, path: FieldPath) -> bool:
    """Say whether the field at `path` within `spec` (list positions count for nothing) has no effect yet."""
    names = tuple(part for part in path if isinstance(part, str))
    return any(names[:length] in UNBUILT[kind] for length in range(len(names) + 1))


def notices(documents: Iterable[Document]) -> list[Problem]:
    """Return one notice for each field that is set in `documents` and not built yet."""
    found: list[Problem] = []
    for document in documents:
        if is_unbuilt(document.kind, ()):
            found.append(document.problem(("spec",), MESSAGE))
            continue
        found += [
            document.problem(("spec", *path), MESSAGE)
            for path in _set_fields(document.spec, ())
            if is_unbuilt(document.kind, path)
        ]
    return found


def _set_fields(spec: Spec, path: FieldPath) -> Iterator[FieldPath]:
    """Yield the path of every value that was written, down to what is no mapping."""
    for attribute, item in type(spec).model_fields.items():
        if attribute not in spec.model_fields_set:
            continue
        value = getattr(spec, attribute)
        here = (*path, item.alias or attribute)
        if isinstance(value, Spec):
            yield from _set_fields(value, here)
        elif isinstance(value, tuple) and any(isinstance(part, Spec) for part in value):
            for index, part in enumerate(value):
                yield from _set_fields(part, (*here, index))
        elif value is not None:
            yield here
