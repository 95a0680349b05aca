"""Comparisons on the push stream."""

from __future__ import annotations

from ext_proc.contract import push_pb2
from ext_proc.contract.comparisons import LIKENESS, Comparison, Likeness, Outcomes
from ext_proc.contract.comparisons_wire import (
    MAX_BUCKETS,
    MAX_RELEASES,
    comparison_messages,
    comparisons_of,
)


def test_what_is_told_is_what_is_heard() -> None:
    """Every number, by Release."""
    side = Outcomes(9, 1, 20, 30, 2, {1: 8}, {2: 3}, {-1: 8})
    found = {"r": Comparison(side, Outcomes(calls=9), Likeness(*range(1, len(LIKENESS) + 1)))}
    assert comparisons_of(comparison_messages(found)) == found


def test_what_is_beyond_reason_is_left_out() -> None:
    """A sidecar that has gone mad costs no memory."""
    many = [push_pb2.Comparison(release=f"r{number}") for number in range(MAX_RELEASES + 5)]
    many[0].old.duration.update(dict.fromkeys(range(MAX_BUCKETS + 5), 1))
    heard = comparisons_of(many)
    assert (len(heard), len(heard["r0"].old.duration)) == (MAX_RELEASES, MAX_BUCKETS)
