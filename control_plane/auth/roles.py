"""Roles and scopes: how much the holder of a token may do (pure).

A role is a rank: an admin may do what an editor may, an editor what a viewer may. `sidecar` stands beside
them: it joins the push stream and sees nothing of the API. Scopes narrow a role and never widen it; a token
without scopes may do all that its role allows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Final

from control_plane.resources.plurals import KIND_OF


class Role(StrEnum):
    """How much a token's holder may do."""

    SIDECAR = "sidecar"
    VIEWER = "viewer"
    EDITOR = "editor"
    ADMIN = "admin"

    def covers(self, other: Role) -> bool:
        """Say whether who has this role may do what `other` is needed for."""
        return _RANKS[self] >= _RANKS[other]


_RANKS: Final = {Role.SIDECAR: 0, Role.VIEWER: 1, Role.EDITOR: 2, Role.ADMIN: 3}

SCOPES: Final = (
    *(f"{area}:{access}" for area in KIND_OF for access in ("read", "write")),
    "consumers:keys",
    "revisions:read",
    "revisions:write",
    "audit:read",
    "sidecars:read",
    "cache:read",
    "cache:write",
    "playground:write",
    "metrics:read",
    "secrets:read",
    "secrets:write",
    "mirrors:read",
    "mirrors:write",
    "tokens:read",
    "tokens:write",
)
"""Every scope there is. `X:write` includes `X:read`; of revisions it is rolling back, of the cache purges."""


@dataclass(frozen=True, slots=True)
class Need:
    """What an operation asks of its caller. `scope` None: the role is enough, whatever the scopes."""

    role: Role
    scope: str | None = None


def scopes_cover(scopes: Iterable[str], scope: str) -> bool:
    """Say whether `scopes` (none of them: all) allow what `scope` is needed for."""
    held = frozenset(scopes)
    if not held or scope in held:
        return True
    area, _, access = scope.partition(":")
    return access == "read" and f"{area}:write" in held


def check_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """Return `scopes` sorted and without doubles.

    Raises:
        ValueError: one is no scope; the nearest that is one is named.
    """
    found = sorted(set(scopes))
    for scope in found:
        if scope not in SCOPES:
            near = get_close_matches(scope, SCOPES, n=1)
            hint = f'did you mean "{near[0]}"?' if near else f"known: {', '.join(SCOPES)}"
            raise ValueError(f"is no scope; {hint}")
    return tuple(found)
