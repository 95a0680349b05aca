"""What differs between two documents, and between two sets of them (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from control_plane.registry.ports import DocumentVersion
from control_plane.registry.values import ChangeAction, DocumentChange, DocumentKey, FieldChange
from control_plane.resources.loading import FieldPath
from control_plane.resources.parsing import field_text

PathChange = tuple[FieldPath, Any, Any]
"""A path, and the JSON value there before and after; None is absent."""


def path_changes(before: Any, after: Any, path: FieldPath = ()) -> Iterator[PathChange]:
    """Yield what differs, as deep as both sides are mappings or lists; absent and null are the same."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from path_changes(before.get(key), after.get(key), (*path, str(key)))
    elif isinstance(before, list) and isinstance(after, list):
        for index, (one, other) in enumerate(zip_longest(before, after)):
            yield from path_changes(one, other, (*path, index))
    elif not _same(before, after):
        yield path, before, after


def field_changes(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> tuple[FieldChange, ...]:
    """Return the fields that differ between two forms of a document; None is no document."""
    if before is None or after is None:
        spec = dict((before or after or {}).get("spec") or {})
        changes = path_changes(spec, {}, ("spec",)) if after is None else path_changes({}, spec, ("spec",))
    else:
        changes = path_changes(before, after)
    return tuple(FieldChange(field_text(path), one, other) for path, one, other in changes)


def versions_diff(versions: Sequence[DocumentVersion], first: int, last: int) -> tuple[DocumentChange, ...]:
    """Return what has to change in revision `first` to get `last`, which may be the older one.

    `versions` are those, oldest first, of every document that differs.
    """
    before, after = _contents(versions, first), _contents(versions, last)
    changes = []
    for key in sorted({*before, *after}):
        was, content = before.get(key), after.get(key)
        if was == content:
            continue
        action = ChangeAction.UPDATE
        if was is None or content is None:
            action = ChangeAction.CREATE if was is None else ChangeAction.DELETE
        fields = field_changes(_value(was), _value(content))
        changes.append(DocumentChange(*key, action, fields))
    return tuple(changes)


def _contents(versions: Iterable[DocumentVersion], revision: int) -> dict[DocumentKey, bytes | None]:
    return {version.key: version.content for version in versions if version.revision <= revision}


def _value(content: bytes | None) -> Mapping[str, Any] | None:
    return None if content is None else json.loads(content)


def _same(before: Any, after: Any) -> bool:
    # In Python 1 == True; in a document they differ.
    return before == after and isinstance(before, bool) == isinstance(after, bool)
