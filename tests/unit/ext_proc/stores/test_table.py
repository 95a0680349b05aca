"""The statements about the table of answers, in a SQLite of this process (PostgreSQL: tests/contract)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import ColumnElement, Connection, create_engine, select, true

from ext_proc.answers import StoredAnswer
from ext_proc.contract.snapshot import Purge
from ext_proc.stores.entry_store import Entry
from ext_proc.stores.table import ANSWERS, FIND, SWEEP_ROWS, meant, remove_some, row, upsert


def entry(number: int, data: bytes = b"entry", *, asked_at: float = 10.0, partition: str = "a") -> Entry:
    """Return an entry under a key as long as the real ones."""
    answer = StoredAnswer(b"", "application/json", f"m{number}", "v1", 0.0, 1.0, partition=partition)
    return Entry(number.to_bytes(32, "big"), answer, data, asked_at, 100.0)


@pytest.fixture
def connection() -> Iterator[Connection]:
    """An empty table."""
    engine = create_engine("sqlite://")
    ANSWERS.create(engine)
    with engine.begin() as made:
        yield made
    engine.dispose()


def keep(connection: Connection, *entries: Entry, written_at: float = 0.0) -> None:
    """Keep `entries`."""
    connection.execute(upsert("sqlite"), [row(one, written_at) for one in entries])


def meets(connection: Connection, condition: ColumnElement[bool]) -> list[int]:
    """Return the numbers of the keys that meet it."""
    return [int(key, 16) for key in connection.scalars(select(ANSWERS.c.key).where(condition))]


def test_a_newer_entry_takes_the_place_of_the_older(connection: Connection) -> None:
    """All of its columns."""
    keep(connection, entry(1, b"older", partition="a"))
    keep(connection, entry(1, b"newer!", partition="b", asked_at=20.0), entry(2), written_at=5.0)
    found = connection.execute(select(ANSWERS).where(ANSWERS.c.partition == "b")).one()
    assert (found.entry, found.bytes, found.asked_at, found.written_at, found.expires_at) == (
        *(b"newer!", 6, 20.0, 5.0, 100.0),
    )
    assert meets(connection, true()) == [1, 2]


def test_entries_are_found_by_their_keys(connection: Connection) -> None:
    """Those that are there."""
    keep(connection, *(entry(number, b"%d" % number) for number in range(5)))
    wanted = [entry(number).key.hex() for number in (1, 3, 9)]
    found = connection.execute(FIND, {"wanted": wanted}).all()
    assert sorted((int(key, 16), data) for key, data in found) == [(1, b"1"), (3, b"3")]


def test_rows_are_removed_some_at_a_time(connection: Connection) -> None:
    """So that nobody else waits for long."""
    keep(connection, *(entry(number) for number in range(SWEEP_ROWS + 20)))
    assert connection.execute(remove_some(true())).rowcount == SWEEP_ROWS
    assert connection.execute(remove_some(true())).rowcount == 20


@pytest.mark.parametrize(
    ("purge", "voided"),
    [
        (Purge(20.0), [1, 2, 3]),
        (Purge(10.0), [1, 2]),
        (Purge(9.9), []),
        (Purge(20.0, tenant="b"), [2]),
        (Purge(20.0, model="m1", version="v1"), [1]),
        (Purge(20.0, model="m1", version="v2"), []),
        (Purge(20.0, key_prefix="00"), [1, 2, 3]),
        (Purge(20.0, key_prefix=(3).to_bytes(32, "big").hex()), [3]),
        (Purge(20.0, key_prefix="0_"), []),
    ],
)
def test_a_purge_means_the_same_rows_as_answers(
    connection: Connection, purge: Purge, voided: list[int]
) -> None:
    """Each condition narrows it; signs of patterns are none."""
    keep(connection, entry(1), entry(2, partition="b"), entry(3, asked_at=20.0))
    assert meets(connection, meant(purge)) == voided
