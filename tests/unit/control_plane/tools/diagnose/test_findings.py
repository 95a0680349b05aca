"""What can be gained, and by which field."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from control_plane.resources.documents import check_documents
from control_plane.resources.loading import read_text
from control_plane.tools.diagnose.findings import Certainty, Finding, Findings, findings, ms
from control_plane.tools.diagnose.probes import Probe
from control_plane.tools.diagnose.readings import read
from control_plane.tools.diagnose.taken import Taken
from tests.unit.control_plane.tools.diagnose.samples import everything, fresh, kept


def found() -> Findings:
    """Return the findings on a far provider."""
    return findings(read(everything(), tls=True, at_once=8))


def by_each(each: str) -> Finding:
    """Return the finding on such calls."""
    return next(one for one in found().found if one.each == each)


def test_the_most_milliseconds_come_first() -> None:
    """In their order, each above zero."""
    gains = [one.gain.value for one in found().found]
    assert gains == sorted(gains, reverse=True)
    assert all(one.gain.low > 0 for one in found().found)


@pytest.mark.parametrize(
    ("each", "kind", "field", "gain", "certainty"),
    [
        ("cold call", "Backend", "warmup", 2046.5, Certainty.LIKELY),
        ("call on a new connection", "Backend", "http", 120, Certainty.SURE),
        ("call of a burst", "Backend", "http", 120, Certainty.SURE),
        ("call under load", "Policy", "batch", 165, Certainty.AT_MOST),
        ("1,000 prompt tokens less", "Policy", "session", 100, Certainty.SURE),
        ("call at temperature 1", "Policy", "parameters", 650, Certainty.SURE),
        ("100 answer tokens cut", "Policy", "parameters", 1250, Certainty.SURE),
        ("repeated call", "Policy", "cache", 648.75, Certainty.AT_MOST),
        ("refused or broken call", "Policy", "retry", 1050, Certainty.AT_MOST),
    ],
)
def test_each_finding(each: str, kind: str, field: str, gain: float, certainty: Certainty) -> None:
    """How much, by which field, how sure."""
    finding = by_each(each)
    assert (finding.setting.kind, finding.certainty) == (kind, certainty)
    assert field in finding.setting.fields
    assert finding.gain.value == pytest.approx(gain, rel=0.03)


def test_differences_within_the_noise_are_told_as_such() -> None:
    """HTTP/2 for one call at a time gains nothing here, and neither does warming after the pause."""
    nothing = found().nothing
    assert any("One call at a time" in sentence for sentence in nothing)
    assert any("after the pause" in sentence for sentence in nothing)
    assert all(sentence.endswith("That is within the noise, or too little.") for sentence in nothing)


def test_too_little_is_no_finding() -> None:
    """A certain tenth of a millisecond is not worth a change."""
    taken = Taken()
    taken.samples[Probe.FIRST] = [fresh(20.1)]
    taken.samples[Probe.FRESH] = [fresh(20.1) for _ in range(8)]
    taken.samples[Probe.KEPT] = [kept(20.0) for _ in range(8)]
    each = [one.each for one in findings(read(taken, tls=False, at_once=0)).found]
    assert each == ["repeated call"]


def test_connections_to_a_sidecar_are_not_the_providers() -> None:
    """They are no finding, and that is said."""
    taken = everything()
    taken.samples[Probe.FIRST] = [replace(taken.samples[Probe.FIRST][0], sidecar=True)]
    made = findings(read(taken, tls=False, at_once=8))
    assert not [one for one in made.found if "http" in one.setting.fields]
    assert any("ask the provider directly" in sentence for sentence in made.nothing)


def test_too_few_calls_are_no_finding() -> None:
    """One slow call beside one quick one shows nothing; a repeated call is what it is."""
    taken = Taken()
    taken.samples[Probe.FIRST] = [fresh(90)]
    taken.samples[Probe.FRESH] = [fresh(50)]
    taken.samples[Probe.KEPT] = [kept(20)]
    made = findings(read(taken, tls=False, at_once=0))
    assert [one.each for one in made.found] == ["repeated call"]
    assert len(made.nothing) == 2
    assert all("too few calls" in sentence for sentence in made.nothing)


@pytest.mark.parametrize("finding", found().found, ids=lambda one: one.each)
def test_settings_are_valid(finding: Finding) -> None:
    """What is to be set is accepted as it stands, in a document of its kind."""
    spec: dict[str, Any] = dict(finding.setting.fields)
    if finding.setting.kind == "Backend":
        spec["url"] = "https://api.example.com/v1"
    document = {
        "apiVersion": "outrigger.dev/v1alpha1",
        "kind": finding.setting.kind,
        "metadata": {"name": "diagnosed"},
        "spec": spec,
    }
    checked = check_documents(read_text(orjson.dumps(document), "test"))
    assert len(checked) == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.123, "0.12 ms"), (12.34, "12.3 ms"), (1234.5, "1,234 ms"), (12_345.0, "12.3 s"), (-3.0, "-3.00 ms")],
)
def test_times_as_text(value: float, text: str) -> None:
    """Three digits that count."""
    assert ms(value) == text
