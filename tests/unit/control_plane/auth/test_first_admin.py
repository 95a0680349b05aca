"""When an admin token is made by itself."""

from dataclasses import replace

import pytest

from control_plane.auth.first_admin import ensure_admin
from control_plane.auth.roles import Role
from control_plane.auth.tokens import matches, take_apart
from control_plane.registry.values import ITSELF
from tests.unit.control_plane.auth.books import Book
from tests.unit.control_plane.auth.clocks import NOON, Clock, counting_entropy


async def make(book: Book, given: str | None = None) -> str | None:
    """Start a control plane."""
    return await ensure_admin(book, given, now=Clock().now, entropy=counting_entropy())


async def test_the_first_start_makes_one() -> None:
    """It is returned once and kept hashed; the second start makes none."""
    book = Book()
    token = await make(book)
    assert token is not None
    parts = take_apart(token)
    assert parts is not None
    row = book.rows[parts.id]
    assert (row.name, row.role, row.scopes, row.expires_at) == ("admin", Role.ADMIN, (), None)
    assert matches(parts, row)
    assert book.actors == [ITSELF]
    assert await make(book) is None


async def test_none_is_made_where_the_operator_gives_one() -> None:
    """An empty text is none given."""
    book = Book()
    assert await make(book, "given") is None
    assert book.rows == {}
    assert await make(book, "") is not None


@pytest.mark.parametrize(
    "change",
    [{"revoked_at": NOON}, {"expires_at": NOON}, {"scopes": ("models:read",)}, {"role": "editor"}],
    ids=["revoked", "expired", "narrowed", "editor"],
)
async def test_whoever_is_locked_out_gets_in_again(change: dict[str, object]) -> None:
    """Without a whole admin token in use, a start makes one."""
    book = Book()
    await make(book)
    book.rows = {key: replace(row, **change) for key, row in book.rows.items()}  # type: ignore[arg-type]
    assert await make(book) is not None
