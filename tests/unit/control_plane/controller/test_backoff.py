"""Pauses after failures."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from control_plane.controller.backoff import FIRST_S, LONGEST_S, pause_s


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_a_pause_is_never_longer_than_five_seconds(failures: int, draw: float) -> None:
    """However long an outage lasts, its end is noticed soon."""
    assert FIRST_S / 2 <= pause_s(failures, draw) <= LONGEST_S


def test_pauses_double() -> None:
    """The first failures are tried again soon."""
    assert [pause_s(failures, 1.0) for failures in (1, 2, 3, 6, 99)] == [0.25, 0.5, 1.0, 5.0, 5.0]
