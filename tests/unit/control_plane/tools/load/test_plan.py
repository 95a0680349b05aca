"""Plans and their bounds."""

import pytest

from control_plane.tools.load.plan import (
    LONGEST_S,
    MOST_REQUESTS,
    Bounds,
    ClosedLoop,
    OpenLoop,
    Plan,
    bounds,
    divided,
)
from tests.unit.control_plane.tools.load.runs import MIX


@pytest.mark.parametrize(
    ("requests", "duration_s", "meant"),
    [
        (None, None, Bounds(1000, 60.0)),
        (5, None, Bounds(5, LONGEST_S)),
        (None, 5.0, Bounds(MOST_REQUESTS, 5.0)),
        (7, 8.0, Bounds(7, 8.0)),
    ],
)
def test_there_is_always_a_bound(requests: int | None, duration_s: float | None, meant: Bounds) -> None:
    """On both calls and time."""
    assert bounds(requests, duration_s) == meant


def test_a_closed_loop_is_divided_by_callers_and_calls() -> None:
    """Nothing is lost, and no two calls have one number."""
    parts = divided(Plan(MIX, ClosedLoop(5, 2.0), Bounds(11, 9.0), first=100), 2)
    assert [part.pace for part in parts] == [ClosedLoop(3, 2.0), ClosedLoop(2, 2.0)]
    assert [part.bounds.requests for part in parts] == [6, 5]
    assert [(part.first, part.share) for part in parts] == [(100, (0, 2)), (101, (1, 2))]


def test_an_open_loop_keeps_its_rate_in_each_part() -> None:
    """The share says which of its arrivals are whose."""
    parts = divided(Plan(MIX, OpenLoop(100.0, most_in_flight=7), Bounds(10, 9.0)), 3)
    assert [part.pace for part in parts] == [
        OpenLoop(100.0, most_in_flight=3),
        OpenLoop(100.0, most_in_flight=2),
        OpenLoop(100.0, most_in_flight=2),
    ]


def test_there_are_no_more_generators_than_callers() -> None:
    """One without a caller would do nothing."""
    assert len(divided(Plan(MIX, ClosedLoop(2), Bounds(100, 9.0)), 8)) == 2
    assert len(divided(Plan(MIX, ClosedLoop(9), Bounds(1, 9.0)), 8)) == 1
