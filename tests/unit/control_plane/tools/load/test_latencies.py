"""Histograms of durations."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.tools.load.latencies import Latencies


def recorded(*seconds: float) -> Latencies:
    """Return these durations."""
    made = Latencies()
    for one in seconds:
        made.record(one)
    return made


def test_none_is_nothing() -> None:
    """Every figure is 0."""
    empty = Latencies()
    assert (empty.count, empty.percentile_ms(99), empty.mean_ms, empty.max_ms) == (0, 0, 0, 0)
    assert list(empty.points()) == []
    assert "count=0" in repr(empty)


@settings(max_examples=40)
@given(st.lists(st.floats(1e-5, 3000), min_size=1, max_size=50))
def test_percentiles_are_those_of_the_values(seconds: list[float]) -> None:
    """To three digits."""
    made = recorded(*seconds)
    assert made.percentile_ms(100) == pytest.approx(max(seconds) * 1000, rel=2e-3, abs=2e-3)
    assert made.percentile_ms(50) == pytest.approx(
        sorted(seconds)[(len(seconds) - 1) // 2] * 1000, rel=2e-3, abs=2e-3
    )
    assert made.count == len(seconds)


def test_what_is_out_of_range_counts_as_the_nearest() -> None:
    """No call is lost."""
    made = recorded(-1.0, 0.0, 1e9)
    assert made.count == 3
    assert made.max_ms == pytest.approx(3_600_000, rel=1e-2)


def test_correction_adds_what_a_stall_hid() -> None:
    """A stall of a second, at a call each 100 ms, hid nine calls; their p90 is not 10 ms."""
    measured = recorded(*[0.01] * 10, 1.0)
    seen = measured.corrected(0.1)
    assert seen.count == 20
    assert measured.percentile_ms(90) == pytest.approx(10, rel=0.01)
    assert seen.percentile_ms(90) == pytest.approx(800, rel=0.01)
    assert recorded(0.01, 0.02).corrected(0.1).count == 2


def test_what_is_encoded_is_decoded() -> None:
    """And adds up."""
    one = Latencies.decoded(recorded(0.1, 0.2).encoded())
    one.add(recorded(0.3))
    assert (one.count, round(one.max_ms), round(one.mean_ms)) == (3, 300, 200)


def test_a_plot_has_no_percentile_that_nothing_is_behind() -> None:
    """With ten values the highest but the last is the 90th."""
    percentiles = [percentile for percentile, _ in recorded(*[0.1] * 10).points()]
    assert percentiles == [0, 10, 25, 50, 75, 90, 100]
