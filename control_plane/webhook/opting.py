"""What a pod itself says about its injection, by `outrigger.dev/inject` (pure).

The webhook's registration keeps out the label `disabled` alone; every other word comes here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from control_plane.webhook.names import INJECT

NO: Final = frozenset({"disabled", "false", "no", "off"})
YES: Final = frozenset({"enabled", "true", "yes", "on"})


class BadOptError(ValueError):
    """The label or annotation has a value that means neither; the message names it and says what it takes."""


def opts_out(metadata: Mapping[str, Any]) -> bool:
    """Whether a pod with this `metadata` wants no pair, by label or annotation, in any case of letters.

    One no is enough, whatever the other says.

    Raises:
        BadOptError: none says no, and one has a value that means neither yes nor no. Whoever wrote it wanted
            something else than what happens by itself: such a pod is left alone.
    """
    words = {
        kind: _word(metadata[kind + "s"][INJECT])
        for kind in ("label", "annotation")
        if INJECT in (metadata.get(kind + "s") or {})
    }
    if not NO.isdisjoint(words.values()):
        return True
    for kind, word in words.items():
        if word not in YES:
            raise BadOptError(f"{kind} {INJECT} must be disabled or enabled")
    return False


def _word(value: Any) -> str:
    """Return a value of a manifest as one word: there `false` without quotes is no text."""
    return "" if value is None else str(value).strip().lower()
