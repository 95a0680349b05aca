"""The page and the figure of a tuning."""

from xml.etree import ElementTree as ET

from control_plane.tools.load.calls import Operation
from control_plane.tools.tune.choosing import Demand
from control_plane.tools.tune.page import alone, choice, curves, tune_page
from control_plane.tools.tune.report import Subject
from control_plane.tools.tune.settings import Method, Target
from tests.unit.control_plane.tools.tune.test_report import tuned


def test_three_curves_are_in_one_figure_with_the_best_marked() -> None:
    """Latency, throughput and errors over one axis of sizes."""
    figure = curves(tuned())
    said = set(ET.fromstring(figure).itertext())
    assert {"Latency", "Good answers a second", "Errors", "1", "10", "50", "best: 10"} <= said
    assert figure.count("<polyline") == 4
    assert figure.count("<polygon") == 1


def test_each_window_has_its_line() -> None:
    """Named by its length; a cost has a panel of its own."""
    figure = curves(tuned(windows=(50, 800), demand=Demand(Target.COST)))
    said = set(ET.fromstring(figure).itertext())
    assert {"50 ms", "800 ms", "Cost, tokens an answer", "p99 latency"} <= said
    assert figure.count("<polyline") == 8


def test_the_figure_is_a_file_of_its_own() -> None:
    """With its style."""
    svg = alone(curves(tuned()))
    assert ET.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"
    assert "prefers-color-scheme: dark" in svg


def test_the_page_tells_all() -> None:
    """The choice and its certainty, each setting, how it was tried, why it ended."""
    html = tune_page(tuned())
    for text in (
        "best size",
        "<b>100%</b>",
        "worse, after round",
        "made by this tool",
        "hardly change the choice",
    ):
        assert text in html
    assert '<tr class="best"><td>10</td>' in html


def test_what_was_applied_is_on_the_page() -> None:
    """Field by field."""
    made = tuned(subject=Subject("u", "m", Operation.CHAT, Method.POLICY, "batching"))
    made["applied"] = {
        "policy": "batching",
        "changes": [{"field": "spec.batch.maxSize", "before": None, "after": 10}],
    }
    html = tune_page(made)
    assert "Applied to Policy/batching" in html
    assert "the default" in html


def test_a_tuning_without_an_answer_has_a_page_too() -> None:
    """It says none."""
    made = tuned(requests=2)
    made.update(best=None, best_window=None, gain=None, trials=[], sizes=[])
    assert choice(made) == "none"
    assert "<svg" in tune_page(made)
