"""What all samples say together."""

import pytest

from control_plane.tools.diagnose.probes import Gap, Probe
from control_plane.tools.diagnose.readings import read
from control_plane.tools.diagnose.taken import Taken
from tests.unit.control_plane.tools.diagnose.samples import everything, fresh, kept


def test_phases_and_differences() -> None:
    """Medians of the phases, and what each circumstance adds."""
    readings = read(everything(), tls=True, at_once=8)
    assert readings.dns is not None
    assert readings.dns.n == 9
    assert readings.tls is not None
    assert readings.tls.value == 63
    assert readings.total is not None
    assert (readings.total.value, readings.total.n) == (133.5, 8)
    assert readings.opening is not None
    assert readings.opening.value == 120
    assert readings.http2 is not None
    assert readings.http2.low <= 0 <= readings.http2.high
    assert readings.http2_at_once is not None
    assert readings.http2_at_once.value == 120
    assert readings.between_tokens is not None
    assert (readings.between_tokens.value, readings.between_tokens.n) == (12.5, 3)


def test_own_work_is_no_waiting() -> None:
    """What this program computed for a burst is taken off."""
    readings = read(everything(), tls=True, at_once=8)
    assert readings.load is not None
    assert readings.load.value == 170 - 5


def test_lengths() -> None:
    """The knee of the prompt, the tokens at each temperature, the time of each token."""
    readings = read(everything(), tls=True, at_once=8)
    assert readings.prompt is not None
    assert readings.prompt.knee is not None
    assert readings.prompt.knee.low <= 1000 <= readings.prompt.knee.high
    assert [(one.temperature, one.tokens.value) for one in readings.temperatures] == [
        (0.2, 41.5),
        (1.0, 93.5),
    ]
    assert readings.per_token is not None
    assert readings.per_token.value == pytest.approx(12.5)


def test_one_cold_call_is_not_exact() -> None:
    """It may be off by as much as warm calls differ."""
    readings = read(everything(), tls=True, at_once=8)
    assert readings.first.above is not None
    assert (readings.first.above.low, readings.first.above.high) == (2043 - 7, 2050 + 7)
    assert readings.paused is not None
    assert readings.paused.above is not None
    assert readings.paused.above.low < 0 < readings.paused.above.high


def test_only_the_first_call() -> None:
    """Everything else is none, and each gap is named."""
    taken = Taken()
    taken.samples[Probe.FIRST] = [fresh(20)]
    taken.gaps[Probe.KEPT] = Gap.BUDGET
    readings = read(taken, tls=False, at_once=0)
    assert readings.total is not None
    assert readings.total.value == 20
    assert (readings.opening, readings.prompt, readings.first.above) == (None, None, None)
    assert readings.gaps == (
        ("DNS", Gap.NO_DNS),
        ("TLS", Gap.NO_TLS),
        ("kept connections", Gap.BUDGET),
    )


@pytest.mark.parametrize(
    ("tokens", "cut", "gap"),
    [
        ([0, 0, 0, 0], False, Gap.NO_USAGE),
        ([8, 8, 8, 8], True, Gap.SAME_LENGTH),
        ([8, 8], True, Gap.BUDGET),
    ],
    ids=["no usage", "one length", "too few"],
)
def test_answers_that_tell_no_slope(tokens: list[int], cut: bool, gap: Gap) -> None:
    """Why the time of a token is not known; answers that were all cut say nothing about temperature."""
    taken = Taken()
    taken.samples[Probe.FIRST] = [fresh(20)]
    taken.samples[Probe.TEMPERATURE] = [kept(50, output_tokens=count, cut=cut) for count in tokens]
    taken.temperatures += [0.2, 1.0] * (len(tokens) // 2)
    readings = read(taken, tls=True, at_once=0)
    assert readings.per_token is None
    assert ("time of each token of the answer", gap) in readings.gaps
    assert (("length of answers by temperature", Gap.CUT) in readings.gaps) is cut
