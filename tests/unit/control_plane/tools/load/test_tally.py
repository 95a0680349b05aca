"""Counting a run."""

import pytest

from control_plane.tools.load.tally import Tally, width_s
from tests.unit.control_plane.tools.load.runs import outcome, tally


def test_latency_counts_from_when_a_call_was_due() -> None:
    """The time from its real start is beside it."""
    made = Tally()
    made.record(outcome(2.0, 1.0), 0.5, 0.0)
    assert made.latency.max_ms == pytest.approx(2500, rel=0.01)
    assert made.service.max_ms == pytest.approx(1000, rel=0.01)
    assert made.lag.max_ms == pytest.approx(1500, rel=0.01)


def test_what_fails_at_once_does_not_flatter() -> None:
    """Refusals are in no latency; a timeout is, with the time it took."""
    made = Tally()
    made.record(outcome(0.0, 0.001, "503"), 0.0, 0.0)
    made.record(outcome(0.0, 30.0, "timeout"), 0.0, 0.0)
    assert (made.latency.count, made.errors, made.good) == (1, 2, 0)
    assert made.latency.max_ms == pytest.approx(30_000, rel=0.01)


def test_what_a_sidecar_says_is_counted() -> None:
    """Cache and batch of good answers."""
    made = Tally()
    made.record(outcome(0.0, 1.0, cache="hit", batch=4), 0.0, 0.0)
    made.record(outcome(0.0, 1.0), 0.0, 0.0)
    assert (dict(made.cache), dict(made.batches)) == ({"hit": 1}, {4: 1})


def test_streams_have_a_first_text_and_gaps() -> None:
    """The first counts from when the call was due."""
    made = Tally()
    made.record(outcome(1.0, 2.0, first=1.5, gaps=(0.1, 0.2)), 0.5, 0.0)
    assert made.first.max_ms == pytest.approx(1000, rel=0.01)
    assert made.gaps.count == 2


def test_tallies_add_up() -> None:
    """Also over the way to another process and back."""
    one, two = tally(0.5, 0.7, errors=1), tally(2.5)
    two.record(outcome(0.0, 1.0, cache="miss", batch=2), 0.0, 0.0)
    two.started += 3
    two.unsent, two.waited = 4, 6
    one.add(Tally.from_json(two.as_json()))
    assert (one.ended, one.good, one.errors, one.unfinished, one.unsent, one.waited) == (5, 4, 1, 2, 4, 6)
    assert (one.latency.count, one.results["200"], one.batches[2], one.cache["miss"]) == (4, 4, 1, 1)
    assert one.seconds == 2.5
    assert {place: bucket.good for place, bucket in one.timeline.items()} == {0: 1, 1: 2, 2: 1}


def test_a_long_run_has_wide_pieces() -> None:
    """Their number is bounded."""
    assert width_s(5) == 1.0
    assert width_s(6000) == 10.0
