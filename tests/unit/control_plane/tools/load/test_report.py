"""Reports."""

import json

import pytest

from control_plane.tools.load.generator import Ending
from control_plane.tools.load.plan import Bounds, OpenLoop, Plan
from control_plane.tools.load.report import report
from control_plane.tools.load.tally import Tally
from tests.unit.control_plane.tools.load.runs import MIX, SUBJECT, finished, outcome, tally


def test_it_holds_what_scripts_read() -> None:
    """Good answers a second, percentiles in ms, errors; it can be written as JSON."""
    made = finished(*[0.1] * 99, 1.0, errors=25)
    assert made["rps"] == pytest.approx(100 / 10.9, rel=0.01)
    assert made["p50"] == pytest.approx(100, rel=0.01)
    assert made["max"] == pytest.approx(1000, rel=0.01)
    assert (made["requests"], made["errors"], made["error_rate"]) == (125, 25, 0.2)
    assert made["results"] == {"200": 100, "503": 25}
    assert json.loads(json.dumps(made)) == made


def test_a_closed_loop_tells_both() -> None:
    """What was measured, and what callers at the median's pace would have seen."""
    made = finished(*[0.1] * 99, 5.0)
    assert made["corrected"]["interval"] == pytest.approx(100, rel=0.01)
    assert made["p90"] < 110 < made["corrected"]["p90"]
    assert "service" not in made


def test_an_open_loop_tells_the_time_from_the_real_start() -> None:
    """Beside the time from when calls were due."""
    made = finished(0.1, pace=OpenLoop(5.0))
    assert made["service"]["p50"] == pytest.approx(100, rel=0.01)
    assert made["load"] == {
        "loop": "open",
        "rate": 5.0,
        "arrivals": "constant",
        "requests": 1,
        "duration_s": 60,
        "ramp_s": 0.0,
        "processes": 1,
    }


def test_pieces_without_an_end_are_in_the_time_line() -> None:
    """A stall shows as zeros."""
    line = finished(0.5, 2.6)["timeline"]
    assert line["good"] == [1, 0, 0, 1]
    assert line["p99"][1] == 0


def test_streams_and_batches_are_told_when_there_are_some() -> None:
    """Else they are absent."""
    counted = Tally()
    counted.record(outcome(0.0, 1.0, first=0.3, gaps=(0.1,), batch=4), 0.0, 0.0)
    made = report(SUBJECT, Plan(MIX), counted, Ending.REQUESTS, at="", processes=1)
    assert made["ttft"]["p50"] == pytest.approx(300, rel=0.01)
    assert made["batch"] == {"requests": 1, "mean_size": 4.0, "max_size": 4}
    assert finished(0.1)["batch"] is None
    assert "ttft" not in finished(0.1)


def test_a_run_without_an_answer_is_a_report_too() -> None:
    """Nothing is divided by zero."""
    made = report(SUBJECT, Plan(MIX), Tally(), Ending.INTERRUPTED, at="", processes=1)
    assert (made["rps"], made["error_rate"], made["ended"], made["tokens"]) == (0, 0, "interrupted", None)
    assert made["timeline"]["good"] == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"waited": 70, "unsent": 50}, "70 calls waited because as many as may be were in flight, 50 were"),
        ({"started": 130}, "30 calls were given up unanswered"),
        ({"cpu_s": 9.8}, "the load generator itself was the bottleneck"),
    ],
)
def test_what_spoils_the_figures_is_told(change: dict[str, float], told: str) -> None:
    """In a sentence each; a sound run has none."""
    counted = tally(*[0.1] * 100)
    plan = Plan(MIX, OpenLoop(10.0), Bounds(100, 60))
    assert report(SUBJECT, plan, counted, Ending.REQUESTS, at="", processes=1)["warnings"] == []
    for name, value in change.items():
        setattr(counted, name, value)
    (warning,) = report(SUBJECT, plan, counted, Ending.REQUESTS, at="", processes=1)["warnings"]
    assert told in warning


def test_few_answers_and_late_starts_are_told() -> None:
    """The latencies of an open loop hold the lateness."""
    counted = Tally()
    counted.record(outcome(5.0, 0.1), 0.0, 0.0)
    counted.started = 1
    told = report(SUBJECT, Plan(MIX), counted, Ending.REQUESTS, at="", processes=1)["warnings"]
    assert any("calls started late" in sentence for sentence in told)
    assert any("fewer than 100" in sentence for sentence in told)
