"""Who may take a Lease, and what is written into it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from control_plane.controller.record import Record, lease_of, may_take, record_of, released, taken

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HELD = Record("a", 15, "then", "then", 3, "7")


@pytest.mark.parametrize(
    ("holder", "unchanged_s", "expected"),
    [("", 0, True), ("a", 0, True), ("b", 0, False), ("b", 15, False), ("b", 15.1, True)],
)
def test_a_lease_may_be_taken_when_nobody_renews_it(holder: str, unchanged_s: float, expected: bool) -> None:
    """One's own and a free one at once, another's only when it was seen unchanged for its duration."""
    assert may_take(replace(HELD, holder=holder), "a", unchanged_s) is expected


def test_renewing_is_no_transition() -> None:
    """Only a new holder counts as one."""
    assert taken(HELD, "a", NOW) == replace(HELD, renewed="2026-01-01T00:00:00.000000Z")
    found = taken(HELD, "b", NOW)
    assert (found.holder, found.transitions, found.acquired) == ("b", 4, "2026-01-01T00:00:00.000000Z")


def test_a_released_lease_is_nobodys() -> None:
    """The next one need not wait for it to run out."""
    assert may_take(released(HELD, NOW), "b", 0)


def test_a_lease_reads_as_it_was_written() -> None:
    """Version included, so that no two write over each other."""
    lease = lease_of(HELD, "name", "namespace")
    assert lease["metadata"] == {"name": "name", "namespace": "namespace", "resourceVersion": "7"}
    assert record_of(lease) == HELD


def test_a_lease_that_says_nothing_is_free() -> None:
    """An empty one, as anybody may make it, does not stop us."""
    assert may_take(record_of({"metadata": {}}), "a", 0)
