"""Documents as they are kept and answered: exactly as written, but for `status`, which nobody writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from control_plane.resources.parsing import STATUS, Document


def written_content(document: Document) -> bytes:
    """Return the JSON of what was written for `document`, in the order it was written in.

    ASCII only, so that no database or wire minds any of it.
    """
    return content_of(document.raw.value)


def content_of(value: Mapping[str, Any]) -> bytes:
    """Return the same of a document as read, right or wrong."""
    value = {key: item for key, item in value.items() if key != STATUS}
    return json.dumps(value, separators=(",", ":"), default=_plain).encode("ascii")


def same_content(one: bytes, other: bytes) -> bool:
    """Say whether two contents are the same but for the order of their fields."""
    return one == other or _sorted(one) == _sorted(other)


def _sorted(content: bytes) -> str:
    return json.dumps(json.loads(content), sort_keys=True)


def _plain(value: object) -> object:
    # YAML's !!set is a list to the checks, whose order nobody wrote.
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(type(value).__name__)
