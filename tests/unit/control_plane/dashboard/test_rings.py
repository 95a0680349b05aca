"""Numbers of the last minutes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.dashboard.rings import STEPS, Recent, Ring, quantiles
from control_plane.releases.histograms import quantile


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 2 * STEPS), st.integers(1, 5)), max_size=12))
def test_a_ring_is_the_list_of_what_was_counted_in_its_last_steps(told: list[tuple[int, int]]) -> None:
    """However far apart: every step, and every sum over steps."""
    ring, step = Ring(2, 7), 7
    kept: dict[int, int] = {}
    for passed, count in told:
        step += passed
        ring.add(step, (count, 0))
        kept[step] = kept.get(step, 0) + count
    within = {at: count for at, count in kept.items() if at > step - STEPS}
    assert {at: ring.at(at)[0] for at in range(step - 2 * STEPS, step + 1) if ring.at(at)[0]} == within
    assert ring.total(step + 3, STEPS + 3) == [sum(within.values()), 0]
    assert ring.total(step, 1) == [kept.get(step, 0), 0]
    assert list(ring.sums(step)) == [sum(within.values()), 0]
    assert ring.empty == (not within)
    assert list(ring.sums(step + STEPS)) == [0, 0]


def test_a_recent_histogram_forgets_in_halves() -> None:
    """What was counted is there for one to two of them."""
    recent = Recent(60.0, 0.0)
    recent.add({1: 2, 2: 1}, 10.0)
    assert recent.read(59.0) == {1: 2, 2: 1}
    recent.add({3: 1}, 70.0)
    assert recent.read(71.0) == {1: 2, 2: 1, 3: 1}
    assert recent.read(135.0) == {3: 1}
    assert recent.read(500.0) == {}


@settings(max_examples=50)
@given(st.dictionaries(st.integers(0, 120), st.integers(1, 50), max_size=20))
def test_quantiles_are_those_of_one_at_a_time(histogram: dict[int, int]) -> None:
    """None when nothing was counted."""
    shares = (0.0, 0.5, 0.95, 1.0)
    assert quantiles(histogram, shares) == [quantile(histogram, share) for share in shares]
