"""Roles as ranks, scopes as bounds."""

import pytest

from control_plane.auth.roles import SCOPES, Role, check_scopes, scopes_cover


@pytest.mark.parametrize(
    ("role", "covered"),
    [
        (Role.ADMIN, {Role.ADMIN, Role.EDITOR, Role.VIEWER, Role.SIDECAR}),
        (Role.EDITOR, {Role.EDITOR, Role.VIEWER, Role.SIDECAR}),
        (Role.VIEWER, {Role.VIEWER, Role.SIDECAR}),
        (Role.SIDECAR, {Role.SIDECAR}),
    ],
    ids=lambda value: value.value if isinstance(value, Role) else None,
)
def test_a_role_covers_those_below_it(role: Role, covered: set[Role]) -> None:
    """Admin above editor above viewer above sidecar."""
    assert {other for other in Role if role.covers(other)} == covered


@pytest.mark.parametrize(
    ("held", "asked", "covers"),
    [
        ((), "tokens:write", True),
        (("models:read",), "models:read", True),
        (("models:write",), "models:read", True),
        (("models:read",), "models:write", False),
        (("models:write",), "policies:read", False),
        (("consumers:write",), "consumers:keys", False),
    ],
)
def test_scopes_narrow(held: tuple[str, ...], asked: str, covers: bool) -> None:
    """None is all; writing includes reading of the same area; keys are apart from documents."""
    assert scopes_cover(held, asked) is covers


def test_scopes_are_sorted_without_doubles() -> None:
    """What is kept does not depend on how it was written."""
    assert check_scopes(["models:write", "audit:read", "models:write"]) == ("audit:read", "models:write")
    assert check_scopes(SCOPES) == tuple(sorted(SCOPES))


@pytest.mark.parametrize(
    ("scope", "hint"), [("model:read", 'did you mean "models:read"?'), ("x", "known: backends:read")]
)
def test_an_unknown_scope_is_told_with_the_nearest(scope: str, hint: str) -> None:
    """A slip is not kept silently: the token would be narrower than was meant."""
    with pytest.raises(ValueError, match="is no scope") as refused:
        check_scopes([scope])
    assert hint in str(refused.value)
    assert scope not in str(refused.value).replace(hint, "")
