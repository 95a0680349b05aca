"""Straight and broken lines through points."""

import random

import pytest

from control_plane.tools.diagnose.fitting import Point, broken, straight

PLACES = (80, 320, 640, 1000, 1500, 2000, 3000, 4000)


def heights(knee: float, before: float, past: float, noise: float, repeats: int = 3) -> list[Point]:
    """Return points on a line that breaks at `knee`, each off by up to `noise`."""
    randomness = random.Random(3)
    return [
        (
            float(place),
            20 + before * min(place, knee) + past * max(0, place - knee) + randomness.uniform(-noise, noise),
        )
        for place in PLACES
        for _ in range(repeats)
    ]


@pytest.mark.parametrize("knee", [700, 1000, 1800])
def test_finds_the_knee(knee: float) -> None:
    """The knee and both slopes are inside their intervals, and the intervals are of use."""
    curve = broken(heights(knee, 0.02, 0.1, 1.0))
    assert curve is not None
    assert curve.knee is not None
    assert curve.slope_past is not None
    assert curve.knee.low <= knee <= curve.knee.high
    assert curve.knee.high - curve.knee.low < 600
    assert curve.slope.low <= 0.02 <= curve.slope.high
    assert curve.slope_past.low <= 0.1 <= curve.slope_past.high
    assert curve.at(4000) == pytest.approx(20 + 0.02 * knee + 0.1 * (4000 - knee), rel=0.02)


@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_a_straight_line_has_no_knee(noise: float) -> None:
    """Noise alone is no break."""
    curve = broken(heights(1000, 0.05, 0.05, noise))
    assert curve is not None
    assert curve.knee is None
    assert curve.slope_past is None
    assert curve.slope.value == pytest.approx(0.05, rel=0.05)


def test_noise_makes_knees_rarely() -> None:
    """In forty straight lines under noise, at most a few knees are seen."""
    randomness = random.Random(5)
    seen = 0
    for _ in range(40):
        points = [(float(place), 0.01 * place + randomness.gauss(0, 3)) for place in PLACES for _ in range(3)]
        curve = broken(points)
        seen += curve is not None and curve.knee is not None
    assert seen <= 3


def test_one_slow_call_changes_little() -> None:
    """A point far off is left out."""
    points = heights(1000, 0.02, 0.1, 0.5)
    curve = broken([*points[:-1], (points[-1][0], points[-1][1] + 5000)])
    assert curve is not None
    assert curve.slope_past is not None
    assert curve.slope_past.value == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize(
    "points",
    [[], [(1.0, 1.0)], [(1.0, 1.0), (2.0, 2.0)], [(5.0, 1.0), (5.0, 2.0), (5.0, 3.0)]],
    ids=["none", "one", "two", "one place"],
)
def test_too_little_for_a_line(points: list[Point]) -> None:
    """No line rather than a made-up one."""
    assert straight(points) is None
    assert broken(points) is None


def test_few_points_make_a_straight_line() -> None:
    """Four points cannot show a knee."""
    curve = broken([(0.0, 0.0), (1.0, 0.0), (2.0, 5.0), (3.0, 10.0)])
    assert curve is not None
    assert curve.knee is None
