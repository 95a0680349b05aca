"""The page of a run."""

from control_plane.tools.load.page import bench_page
from control_plane.tools.load.plan import OpenLoop
from tests.unit.control_plane.tools.load.runs import finished


def test_it_shows_the_run() -> None:
    """Figures, charts over time and by percentile, results, warnings."""
    made = finished(*[0.1] * 10, errors=2)
    html = bench_page(made)
    assert html.count("<svg") == 2
    for text in (
        "closed loop, 2 callers",
        "corrected for coordinated omission",
        "503",
        "2 (16.67%)",
        *made["warnings"],
    ):
        assert text in html
    assert "that run" not in html


def test_it_shows_another_run_beside() -> None:
    """With ratios, and both in the chart of percentiles."""
    other = {**finished(*[0.2] * 10), "name": "without <b>"}
    html = bench_page(finished(*[0.1] * 10, pace=OpenLoop(9.0, ramp_s=2.0)), other)
    assert "Beside without &lt;b&gt;" in html
    assert '<td class="good">× 0.5</td>' in html
    assert "open loop, 9 a second (constant), ramp 2 s" in html
    assert "that run" in html


def test_a_run_without_an_answer_has_a_page_too() -> None:
    """It says so."""
    assert "503" in bench_page(finished(errors=3))
