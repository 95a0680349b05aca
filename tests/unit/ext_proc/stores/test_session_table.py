"""Statements about sessions in a database."""

from __future__ import annotations

import pytest
from sqlalchemy.dialects import postgresql, sqlite

from ext_proc.stores.session_table import SWEEP_ROWS, lock_of, remove_expired, upsert


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_a_session_is_one_row(dialect: str) -> None:
    """A newer one takes its place, by its key."""
    dialects = {"sqlite": sqlite, "postgresql": postgresql}
    written = str(upsert(dialect).compile(dialect=dialects[dialect].dialect()))
    assert "ON CONFLICT (key) DO UPDATE" in written.replace('"', "")
    for column in ("last", "records", "expires_at"):
        assert f"{column} = excluded.{column}" in written


def test_sweeping_leaves_alone_what_is_in_use() -> None:
    """And takes some rows at a time."""
    statement = remove_expired(1.0).compile(dialect=postgresql.dialect())  # type: ignore[no-untyped-call]
    assert "FOR UPDATE SKIP LOCKED" in str(statement)
    assert SWEEP_ROWS in statement.params.values()


def test_a_lock_is_a_number_that_postgresql_takes() -> None:
    """64 bits with a sign."""
    assert lock_of(b"\xff" * 32) == -1
    assert lock_of(bytes(7) + b"\x01" + bytes(24)) == 1
