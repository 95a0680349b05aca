"""Who a request comes from, once its token or its session has been checked (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from control_plane.auth.roles import Need, Role, scopes_cover


@dataclass(frozen=True, slots=True)
class Identity:
    """The holder of a valid token. `scopes` () is everything that the role allows."""

    token_id: str
    name: str
    role: Role
    scopes: tuple[str, ...] = ()

    def lacks(self, need: Need) -> str | None:
        """Return what is missing for `need`, as the end of a sentence; None when nothing is."""
        if not self.role.covers(need.role):
            return f"needs the role {need.role.value}; this token has {self.role.value}"
        if need.scope is not None and not scopes_cover(self.scopes, need.scope):
            return f"needs the scope {need.scope}, which this token does not have"
        return None

    def may_grant(self, scopes: tuple[str, ...]) -> bool:
        """Say whether a token with `scopes` would be no wider than this one."""
        if not self.scopes:
            return True
        return bool(scopes) and all(scopes_cover(self.scopes, scope) for scope in scopes)
