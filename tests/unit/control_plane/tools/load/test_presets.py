"""Presets and wishes."""

from control_plane.tools.load.arrivals import Arrivals
from control_plane.tools.load.plan import MOST_IN_FLIGHT, Bounds, ClosedLoop, OpenLoop
from control_plane.tools.load.presets import Preset, Wish
from tests.unit.control_plane.tools.load.runs import MIX


def test_stress_is_two_hundred_callers_with_three_hundred_calls_each() -> None:
    """They begin within half a minute."""
    plan = Wish(preset=Preset.STRESS).plan(MIX, 0)
    assert plan.pace == ClosedLoop(200, 30)
    assert plan.bounds.requests == 60_000


def test_what_is_said_goes_before_the_preset() -> None:
    """Each by itself."""
    plan = Wish(callers=3, requests=9, preset=Preset.STRESS).plan(MIX, 4)
    assert plan.pace == ClosedLoop(3, 30)
    assert (plan.bounds.requests, plan.bounds.duration_s, plan.first) == (9, 1800, 4)


def test_a_rate_is_an_open_loop() -> None:
    """Callers then bound the calls in flight; a preset's callers do not."""
    wish = Wish(rate=5.0, arrivals=Arrivals.POISSON, preset=Preset.QUICK)
    assert wish.plan(MIX, 0).pace == OpenLoop(5.0, Arrivals.POISSON, 0.0, MOST_IN_FLIGHT)
    assert Wish(rate=5.0, callers=8).plan(MIX, 0).pace == OpenLoop(5.0, most_in_flight=8)


def test_nothing_said_is_small() -> None:
    """And safe to try against a provider that costs money."""
    plan = Wish().plan(MIX, 0)
    assert (plan.pace, plan.bounds) == (ClosedLoop(10), Bounds(1000, 60.0))
