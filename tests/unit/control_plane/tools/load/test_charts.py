"""Charts."""

import math
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.tools.load.charts import Axis, Mark, Panel, Series, chart, nice_ticks, number_text

AXIS = Axis("x", [(0.0, "0"), (10.0, "ten")])


def texts(svg: str) -> list[str]:
    """Return every text of a chart, in order."""
    return [text for text in ET.fromstring(svg).itertext() if text.strip()]


def test_a_chart_is_whole_and_says_what_it_shows() -> None:
    """Well-formed, with titles, ticks, legend and a mark; names are text, not markup."""
    band = [(1.0, 3.0), (2.0, 4.0)]
    lines = [Series("a<b", [(0, 2), (10, 3)], dots=True, band=band), Series("c", [(0, 1), (10, 1)], 1, True)]
    svg = chart(
        "both & more", [Panel("Latency", lines, " ms"), Panel("Errors", [])], AXIS, Mark(10.0, "best")
    )
    said = texts(svg)
    assert {"both & more", "Latency", "Errors", "a<b", "c", "ten", "x", "best", "4 ms"} <= set(said)
    assert svg.count("<polyline") == 2
    assert svg.count("<polygon") == 1
    assert svg.count("<circle") == 2


def test_values_above_a_fixed_top_stay_inside() -> None:
    """The line ends at the upper edge."""
    svg = chart("t", [Panel("p", [Series("s", [(0, 1), (10, 99)])], top=1.0)], AXIS)
    line = next(one for one in ET.fromstring(svg).iter() if one.tag.endswith("polyline"))
    heights = {float(point.split(",")[1]) for point in str(line.get("points")).split()}
    assert len(heights) == 1


@pytest.mark.parametrize("panels", [[], [Panel("p", [])], [Panel("p", [Series("s", [(3, 0)])])]])
def test_little_or_nothing_is_drawn_too(panels: list[Panel]) -> None:
    """Without an error."""
    assert ET.fromstring(chart("t", panels, Axis("x", []))) is not None


@settings(max_examples=40)
@given(st.floats(1e-6, 1e9))
def test_ticks_are_few_and_reach_the_top(top: float) -> None:
    """From 0 on, evenly."""
    ticks = nice_ticks(top)
    assert ticks[0] == 0
    assert ticks[-1] >= top * (1 - 1e-6)
    assert 2 <= len(ticks) <= 7


@pytest.mark.parametrize("top", [0.0, -1.0, math.inf, math.nan])
def test_no_scale_is_zero_to_one(top: float) -> None:
    """Whatever there is to show."""
    assert nice_ticks(top) == [0.0, 1.0]


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.25, "0.25"), (12.0, "12"), (1234.5, "1234"), (34_500, "34.5k")]
)
def test_numbers_are_short(value: float, text: str) -> None:
    """Four digits at most."""
    assert number_text(value) == text
