"""When calls of an open loop start."""

import random
from itertools import chain, islice, pairwise, takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.tools.load.arrivals import Arrivals, moment_of, moments


def test_an_even_pace() -> None:
    """The first call starts at once, each next one a period later."""
    assert list(islice(moments(4.0), 4)) == [0.0, 0.25, 0.5, 0.75]


def test_a_ramp_rises_in_a_straight_line() -> None:
    """Half of the ramp's time brings a quarter of its calls; behind it the pace is even."""
    assert [round(one, 3) for one in islice(moments(10.0, 2.0), 0, 13, 2)] == [
        0.0, 0.894, 1.265, 1.549, 1.789, 2.0, 2.2,
    ]  # fmt: skip


def test_poisson_has_the_rate_and_its_spread() -> None:
    """As many arrivals as the rate says, their distances spread as widely as they are long."""
    found = list(takewhile(lambda t: t < 100, moments(50.0, 0.0, Arrivals.POISSON, chance=random.Random(1))))
    distances = [later - earlier for earlier, later in pairwise(found)]
    mean = sum(distances) / len(distances)
    spread = (sum((one - mean) ** 2 for one in distances) / len(distances)) ** 0.5
    assert len(found) == pytest.approx(5000, rel=0.05)
    assert spread == pytest.approx(mean, rel=0.1)


def test_generators_share_an_even_pace() -> None:
    """Together they start the calls that one would."""
    parts = [list(islice(moments(10.0, 1.0, share=(place, 3)), 5)) for place in range(3)]
    assert sorted(chain(*parts)) == pytest.approx(list(islice(moments(10.0, 1.0), 15)))


@settings(max_examples=40)
@given(st.floats(0, 1e4), st.floats(0, 1e4), st.floats(0.1, 1e4), st.floats(0, 600))
def test_time_never_runs_back(count: float, more: float, rate: float, ramp_s: float) -> None:
    """A later call starts no earlier, whatever rate and ramp are."""
    assert moment_of(count, rate, ramp_s) <= moment_of(count + more, rate, ramp_s) + 1e-9
