"""What an identity lacks and may hand on."""

import pytest

from control_plane.auth.identity import Identity
from control_plane.auth.roles import Need, Role


@pytest.mark.parametrize(
    ("identity", "need", "lacks"),
    [
        (Identity("a", "a", Role.VIEWER), Need(Role.VIEWER), None),
        (Identity("a", "a", Role.ADMIN), Need(Role.EDITOR, "models:write"), None),
        (
            Identity("a", "a", Role.VIEWER),
            Need(Role.EDITOR),
            "needs the role editor; this token has viewer",
        ),
        (
            Identity("a", "a", Role.EDITOR, ("tiers:write",)),
            Need(Role.EDITOR, "models:write"),
            "needs the scope models:write, which this token does not have",
        ),
        (Identity("a", "a", Role.EDITOR, ("tiers:write",)), Need(Role.VIEWER), None),
    ],
)
def test_what_is_missing_is_named(identity: Identity, need: Need, lacks: str | None) -> None:
    """The role first, then the scope."""
    assert identity.lacks(need) == lacks


def test_a_scoped_token_hands_on_only_what_it_has() -> None:
    """Else a token for tokens would be a token for everything."""
    scoped = Identity("a", "a", Role.ADMIN, ("tokens:write", "models:write"))
    assert scoped.may_grant(("models:read",))
    assert not scoped.may_grant(("policies:read",))
    assert not scoped.may_grant(())
    assert Identity("a", "a", Role.ADMIN).may_grant(())
