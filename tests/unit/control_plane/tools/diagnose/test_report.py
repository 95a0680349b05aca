"""A diagnosis as JSON and as rows of text."""

import math
from typing import Any

import pytest
import yaml

from control_plane.tools.diagnose.estimates import Estimate
from control_plane.tools.diagnose.findings import findings
from control_plane.tools.diagnose.probes import Gap, Probe
from control_plane.tools.diagnose.readings import Readings, read
from control_plane.tools.diagnose.report import (
    Spent,
    as_json,
    gains,
    gaps,
    inline,
    interval,
    measured,
    reasons,
)
from control_plane.tools.diagnose.taken import Taken
from tests.unit.control_plane.tools.diagnose.samples import everything, fresh

SPENT = Spent("https://api.example.com/v1", "gpt-4o", 99, 40_000, 12.34)
PROMISED = ("connect", "tls", "ttfb", "total", "cold", "prompt", "temperature")


def readings() -> Readings:
    """Return what a far provider gives."""
    return read(everything(), tls=True, at_once=8)


def written(of: Readings) -> dict[str, Any]:
    """Return the report."""
    return as_json(SPENT, of, findings(of))


def test_what_scripts_rely_on() -> None:
    """The promised names hold milliseconds, or for the two lengths an object."""
    report = written(readings())
    assert {name: report[name] for name in PROMISED[:5]} == {
        "connect": 2.0,
        "tls": 63.0,
        "ttfb": 132.5,
        "total": 133.5,
        "cold": 2300,
    }
    assert report["prompt"]["knee_tokens"]["value"] == pytest.approx(1000, abs=60)
    assert report["prompt"]["slope_per_1000_past_knee"]["value"] == pytest.approx(100, rel=0.02)
    assert len(report["prompt"]["points"]) == 24
    assert [point["output_tokens"] for point in report["temperature"]["points"]] == [41.5, 93.5]


def test_findings_carry_what_to_set() -> None:
    """Each with its milliseconds, interval, number of calls and a `spec` that can be applied."""
    first = written(readings())["findings"][0]
    assert first["gain_ms"] == 2046.5
    assert first["low"] <= first["gain_ms"] <= first["high"]
    assert first["kind"] == "Backend"
    assert first["policy"].startswith("warmup: {requests: 8")
    assert first["spec"]["warmup"]["requests"] == 8


def test_names_are_always_there() -> None:
    """With one call alone they are null, and the report says why."""
    taken = Taken()
    taken.samples[Probe.FIRST] = [fresh(20)]
    report = written(read(taken, tls=False, at_once=0))
    assert set(PROMISED) <= set(report)
    assert (report["tls"], report["connect"], report["total"]) == (None, 2.0, 20)
    assert report["prompt"] == {
        "slope_per_1000": None,
        "slope_per_1000_past_knee": None,
        "knee_tokens": None,
        "points": [],
    }
    assert "TLS" in [gap["what"] for gap in report["unmeasured"]]


def test_no_number_that_json_has_not() -> None:
    """An interval without an end is null."""
    assert interval(Estimate(1, -math.inf, math.inf, 2)) == "unknown"
    taken = Taken()
    taken.samples[Probe.FIRST] = [fresh(20)]
    taken.samples[Probe.PROMPT] = everything().samples[Probe.PROMPT][:9:3]
    assert "inf" not in str(written(read(taken, tls=False, at_once=0)))


def test_rows_of_one_call() -> None:
    """One call has no interval and is not called kept; what is missing is told once a reason."""
    taken = Taken()
    taken.samples[Probe.FIRST] = [fresh(20)]
    taken.gaps |= {Probe.KEPT: Gap.BUDGET, Probe.STREAM: Gap.BUDGET}
    found = read(taken, tls=False, at_once=0)
    assert measured(found) == [
        ("first call", "20.0 ms", "", "1"),
        ("TCP connect", "2.00 ms", "", "1"),
        ("first byte", "19.0 ms", "", "1"),
        ("whole call", "20.0 ms", "", "1"),
    ]
    assert [sentence.partition(":")[0] for sentence in gaps(found)] == [
        "DNS",
        "TLS",
        "kept connections, streams",
    ]


def test_rows() -> None:
    """Every reading is a row of name, median, interval and number; gains and reasons share their numbers."""
    rows = measured(readings())
    assert all(len(row) == 4 for row in rows)
    names = [row[0] for row in rows]
    assert names[:5] == ["first call", "call after the pause", "DNS", "TCP connect", "TLS handshake"]
    assert "knee of the prompt's length" in names
    found = findings(readings())
    assert [row[0] for row in gains(found)] == [reason.partition(":")[0] for reason in reasons(found)]
    assert gains(found)[0][1:4] == ("2,046 ms", "2,036 ms … 2,057 ms", "cold call")


@pytest.mark.parametrize("finding", findings(readings()).found, ids=lambda one: one.each)
def test_what_to_set_is_yaml(finding: Any) -> None:
    """The one line can be pasted into a `spec`."""
    text = inline(finding.setting.fields)
    assert yaml.safe_load(f"{{{text}}}") == finding.setting.fields


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        ("2", '"2"'),
        ("10m", "10m"),
        ("a b", '"a b"'),
        (0.3, "0.3"),
        ({"a": {"b": 1}}, "a: {b: 1}"),
    ],
)
def test_inline_values(value: Any, text: str) -> None:
    """Text that YAML would read otherwise is quoted."""
    assert inline(value) == text
