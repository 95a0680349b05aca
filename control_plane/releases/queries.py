"""Gates that are queries to Prometheus: from answers to readings (pure).

What is not known is no pass: it waits. A value counts as beyond its limit when several answers in a row are:
one scrape that failed, or one odd point, rolls nothing back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from control_plane.releases.analysis import Outcome, Reading, Verdict
from control_plane.resources.kinds.release import PrometheusGate

IN_A_ROW: Final = 3
GATE: Final = "prometheus"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query came to: a value, or why there is none. `in_a_row` so many have been beyond the limit."""

    value: float | None
    why: str = ""
    in_a_row: int = 0


NOT_ASKED: Final = Answer(None, "not asked yet")


def is_beyond(gate: PrometheusGate, value: float) -> bool:
    """Return whether `value` is one that the gate does not allow."""
    return (gate.max is not None and value > gate.max) or (gate.min is not None and value < gate.min)


def counted(gate: PrometheusGate, before: Answer, now: Answer) -> Answer:
    """Return `now` with how many in a row are beyond; an unknown one changes nothing of that."""
    if now.value is None:
        return replace(now, in_a_row=before.in_a_row)
    return replace(now, in_a_row=before.in_a_row + 1 if is_beyond(gate, now.value) else 0)


def with_queries(verdict: Verdict, gates: Sequence[PrometheusGate], answers: Sequence[Answer]) -> Verdict:
    """Return the verdict with what the queries say: one that fails fails it, none that waits lets it pass."""
    known = [*answers, *[NOT_ASKED] * len(gates)]
    found = [_reading(index, gate, known[index]) for index, gate in enumerate(gates)]
    readings = (*verdict.readings, *(reading for reading, _ in found))
    outcome, reason = verdict.outcome, verdict.reason
    if outcome is not Outcome.FAIL:
        failed = [why for reading, why in found if reading.outcome is Outcome.FAIL]
        waits = [why for reading, why in found if reading.outcome is Outcome.WAIT]
        if failed:
            outcome, reason = Outcome.FAIL, failed[0]
        elif waits and outcome is Outcome.PASS:
            outcome, reason = Outcome.WAIT, waits[0]
    return Verdict(outcome, reason, readings)


def _reading(index: int, gate: PrometheusGate, answer: Answer) -> tuple[Reading, str]:
    name = f"{GATE}[{index}]"
    limit = gate.max if gate.max is not None else gate.min
    assert limit is not None  # a document has one of the two
    evidence, needed = float(answer.in_a_row), float(IN_A_ROW)
    if answer.value is None:
        reading = Reading(name, Outcome.WAIT, None, None, limit, evidence, needed)
        return reading, f"{name}: unknown: {answer.why}"
    side = "above" if gate.max is not None else "below"
    told = f"{name}: {answer.value:.4g} is {side} {limit:g}"
    outcome = Outcome.PASS
    if is_beyond(gate, answer.value):
        outcome = Outcome.FAIL if answer.in_a_row >= IN_A_ROW else Outcome.WAIT
    return Reading(name, outcome, None, answer.value, limit, evidence, needed), told
