"""Numbers of the last minutes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.dashboard.rings import STEPS, Recent, Ring


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
    assert ring.newest == step


def test_a_recent_histogram_forgets_in_halves() -> None:
    """What was counted is there for one to two of them."""
    recent = Recent(60.0, 0.0)
    recent.add({1: 5, 2: 1}, {1: 3}, 10.0)
    assert recent.read(59.0) == {1: 2, 2: 1}
    recent.add({3: 1}, {}, 70.0)
    assert recent.read(71.0) == {1: 2, 2: 1, 3: 1}
    assert recent.read(135.0) == {3: 1}
    assert recent.read(500.0) == {}


def test_a_histogram_that_shrank_takes_nothing_away() -> None:
    """Counts only grow; less is another beginning."""
    recent = Recent(60.0, 0.0)
    recent.add({1: 1}, {1: 4}, 0.0)
    assert recent.read(0.0) == {}
