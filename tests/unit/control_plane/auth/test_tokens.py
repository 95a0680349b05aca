"""Tokens as texts, and what is kept of them."""

from dataclasses import replace
from datetime import timedelta

import pytest

from control_plane.auth.roles import Role
from control_plane.auth.tokens import NewToken, in_use, matches, new_token, take_apart
from tests.unit.control_plane.auth.clocks import NOON, counting_entropy


@pytest.fixture(scope="module")
def made() -> NewToken:
    """Return one token; hashing is slow by design."""
    return new_token("", Role.VIEWER, ("models:read",), now=NOON, expires_at=None, entropy=counting_entropy())


def test_a_token_names_its_row_and_holds_its_secret(made: NewToken) -> None:
    """Id and secret come out again; only the id is in the row, and no repr shows the secret."""
    parts = take_apart(made.token)
    assert parts is not None
    assert parts.id == made.row.id == "000000000001"
    assert len(parts.secret) == 43
    assert made.row.name == "viewer-000000000001"
    for shown in (repr(made), repr(made.row), repr(parts)):
        assert parts.secret not in shown


def test_only_the_right_secret_matches(made: NewToken) -> None:
    """One changed character, or no row at all, is wrong."""
    parts = take_apart(made.token)
    assert parts is not None
    assert matches(parts, made.row)
    changed = "A" if parts.secret[-1] != "A" else "B"
    assert not matches(replace(parts, secret=parts.secret[:-1] + changed), made.row)
    assert not matches(parts, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ort_",
        "ort_000000000001_",
        "ort_000000000001_" + "a" * 42,
        "ort_000000000001_" + "a" * 44,
        "ort_00000000000G_" + "a" * 43,
        "ork_000000000001_" + "a" * 43,
        "ort_000000000001_" + "a" * 42 + "é",
        "ort_000000000001_" + "a" * 43 + "\n",
        "x" * 6_000,
    ],
)
def test_what_has_not_the_form_is_no_token(text: str) -> None:
    """Such texts cost no hashing."""
    assert take_apart(text) is None


def test_a_token_ends_when_it_is_revoked_or_expires(made: NewToken) -> None:
    """The moment of expiry is already too late."""
    assert in_use(made.row, NOON)
    assert not in_use(replace(made.row, revoked_at=NOON), NOON)
    expiring = replace(made.row, expires_at=NOON + timedelta(seconds=1))
    assert in_use(expiring, NOON)
    assert not in_use(expiring, NOON + timedelta(seconds=1))
