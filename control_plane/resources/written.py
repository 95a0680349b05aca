"""Documents as they are kept and answered: exactly as written, but for `status`, which nobody writes."""

from __future__ import annotations

import json
from typing import Any

from control_plane.resources.parsing import STATUS, Document


def written_value(document: Document) -> dict[str, Any]:
    """Return what was written for `document`, in the order it was written in, as plain JSON values."""
    return {str(key): value for key, value in document.raw.value.items() if key != STATUS}


def written_content(document: Document) -> bytes:
    """Return `written_value` as JSON; ASCII only, so that no database or wire minds any of it."""
    return json.dumps(written_value(document), separators=(",", ":"), default=_plain).encode("ascii")


def _plain(value: object) -> object:
    # YAML's !!set is a list to the checks, whose order nobody wrote.
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(type(value).__name__)
