"""The sliding window against a log of everything."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ext_proc.limits.window import DAY_SLICE_US, DAY_US, SLICE_US, SPAN_US, Window

SECOND = 1_000_000
STEPS = st.lists(st.tuples(st.integers(0, 20 * SECOND), st.integers(1, 4)), max_size=60)


def run(steps: Sequence[tuple[int, int]], limit: int) -> list[tuple[int, int]]:
    """Return when how much was admitted, asked for after each of these pauses."""
    window, now, admitted = Window(), 0, []
    for pause, amount in steps:
        now += pause
        window.pass_time(now)
        if not window.fits_at(amount, limit):
            window.add(now, amount)
            admitted.append((now, amount))
    return admitted


@given(STEPS, st.integers(4, 12))
def test_no_minute_holds_more_than_the_limit(steps: list[tuple[int, int]], limit: int) -> None:
    """Wherever the minute begins."""
    admitted = run(steps, limit)
    for end, _ in admitted:
        assert sum(amount for at, amount in admitted if end - SPAN_US < at <= end) <= limit


def test_under_pressure_almost_all_of_the_limit_passes() -> None:
    """Ten minutes of calls every 50 ms: at least 98 % of the limit, whatever the phase."""
    for limit in (7, 100, 997):
        admitted = run([(50_000, 1)] * 12_000, limit)
        assert len(admitted) >= 0.98 * 10 * limit
    # The worst case: as evenly as the limit allows, which keeps every slice as long as it may be.
    admitted = run([(SPAN_US // 600, 1)] * 6_000, 600)
    assert len(admitted) >= 0.98 * 6_000


@given(STEPS, st.integers(4, 12), st.integers(1, 4))
def test_after_the_wait_it_fits_and_not_before(steps: list[tuple[int, int]], limit: int, amount: int) -> None:
    """Exact to the microsecond."""
    window, now = Window(), 0
    for pause, step in steps:
        now += pause
        window.pass_time(now)
        if not window.fits_at(step, limit):
            window.add(now, step)
    fits_at = window.fits_at(amount, limit)
    if fits_at:
        window.pass_time(fits_at - 1)
        assert window.fits_at(amount, limit)
        window.pass_time(fits_at)
        assert not window.fits_at(amount, limit)


def test_a_burst_is_gone_after_a_minute_exactly() -> None:
    """What came at one moment is not counted longer than that, so nobody waits 61 seconds."""
    window = Window()
    for _ in range(10):
        window.add(500_000, 1)
    assert window.fits_at(1, 10) == 500_000 + SPAN_US
    assert window.full_again_us() == 500_000 + SPAN_US


def test_memory_is_bounded() -> None:
    """A minute is 61 slices at most, however many calls there are."""
    window = Window()
    for number in range(200_000):
        window.pass_time(number * 1_000)
        window.add(number * 1_000, 1)
    assert len(window._slices) <= SPAN_US // SLICE_US + 1


@given(
    st.lists(st.tuples(st.integers(0, 30 * SECOND), st.integers(1, 5)), min_size=1, max_size=30), st.data()
)
def test_what_is_given_back_is_there_again(adds: list[tuple[int, int]], data: st.DataObject) -> None:
    """As long as it counts; more than was taken is never given back."""
    window, now = Window(), 0
    added: list[tuple[int, int]] = []
    for pause, amount in adds:
        now += pause
        window.pass_time(now)
        window.add(now, amount)
        added.append((now, amount))
    at, amount = data.draw(st.sampled_from(added))
    before = window.used
    window.take_back(at, amount)
    window.take_back(now + 10 * SPAN_US, 5)
    assert window.used in (before, before - amount)
    if at + SPAN_US > now:
        assert window.used == before - amount
    for at, amount in added:
        window.take_back(at, amount)
    assert window.used >= 0


def test_more_than_the_limit_fits_when_nothing_is_used() -> None:
    """Nobody is refused for ever."""
    window = Window()
    assert window.fits_at(50, 10) == 0
    window.add(0, 10)
    assert window.fits_at(50, 10) == SPAN_US


def test_a_limit_that_was_lowered_waits_for_the_rest() -> None:
    """Until enough has been let go, or all of it."""
    window = Window()
    for second in range(5):
        window.add(second * 2 * SECOND, 10)
    window.pass_time(9 * SECOND)
    assert window.fits_at(1, 11) == 6 * SECOND + SPAN_US
    assert window.fits_at(1, 1) == 8 * SECOND + SPAN_US
    assert window.fits_at(1, 45) == SPAN_US


def test_a_clock_that_is_put_back_keeps_nothing_for_longer_than_a_minute() -> None:
    """By an hour, say: what is counted counts from then on, for a minute."""
    window = Window()
    window.add(3_600 * SECOND, 3)
    window.pass_time(5 * SECOND)
    assert window.fits_at(1, 3) == 5 * SECOND + SPAN_US
    window.pass_time(5 * SECOND + SPAN_US)
    assert window.used == 0
    assert window.full_again_us() == 0


def test_a_day_is_any_24_hours() -> None:
    """At least 98 % of a budget passes under pressure, in no more than 73 slices."""
    window, now, passed = Window(DAY_US, DAY_SLICE_US), 0, []
    while now < 4 * DAY_US:
        now += 60 * SECOND
        window.pass_time(now)
        if not window.fits_at(2, 1_000):
            window.add(now, 2)
            passed.append(now)
    assert 2 * len(passed) >= 0.98 * 4 * 1_000
    for first, last in zip(passed, passed[500:], strict=False):
        assert last - first >= DAY_US
    assert len(window._slices) <= 73
