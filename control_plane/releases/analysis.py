"""What is known of a Release's two versions at its step, and what follows from it (pure).

Estimates are made from the whole step and from windows of the recent past: a version that breaks after a
good hour is not hidden by that hour. A window moves, and sooner or later chance shows in it what is not so:
its estimate counts only where it is beyond the limit by some standard deviations. `evidence` says why looking
after every interval is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import exp, log
from typing import Final

from control_plane.releases.counts import NEITHER, NOTHING, Both, Counts
from control_plane.releases.evidence import ALONE_AT_FIRST, AT_FIRST, Wealth, alone, compared
from control_plane.releases.gates import LEAST_BAD, ErrorRate, Gate, RefusalRate
from ext_proc.contract.comparisons import NO_LIKENESS, Likeness

DOUBT_OF_ERRORS: Final = 0.02
"""How likely a Release without a difference is rolled back for its errors, at most, all looks together."""
DOUBT_ALONE: Final = 0.01
"""The same where the new version has nothing to be compared with."""
DOUBT_OF_OTHERS: Final = 0.02
"""The same for all other gates together."""
LEAST_OF_EACH: Final = 5
"""Calls of each version that an interval waits for: with one version alone there is nothing to compare."""
WAITS_FOR_OLD: Final = 200
LONG: Final = 1000
STEP_DEVIATIONS: Final = 0.5
"""From so many calls of the new version on a step's estimate counts, if it is beyond by so much."""
WINDOWS: Final = ((50, 3.5), (1000, 2.0))
"""Calls of the new version that a window holds at least, once it had them (at most twice as many), and by how
many standard deviations its estimate must be beyond."""
UNBEARABLE: Final = 0.2
"""What is allowed beyond the old version's last known error rate where there is nothing to compare with."""
HOPELESS: Final = 0.5
_ALONE: Final = "alone"
_LARGEST: Final = 20.0  # as an exponent


class Outcome(StrEnum):
    """What a step's numbers say."""

    PASS = "pass"
    WAIT = "wait"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one gate says. Figures are None where too little is known.

    `evidence` that the new version is worse: 1 is none; from `needed` on it counts.
    """

    gate: str
    outcome: Outcome
    old: float | None
    new: float | None
    limit: float
    evidence: float
    needed: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows; `reason` is for people and names the gate of a failure."""

    outcome: Outcome
    reason: str
    readings: tuple[Reading, ...] = ()


@dataclass(frozen=True, slots=True)
class Window:
    """The recent past: a block that is being filled, and the full one before it."""

    block: Both = NEITHER
    before: Both = NEITHER

    def moved(self, interval: Both, length: int) -> Window:
        """Return the window after `interval`; a block is full with `length` calls of the new version."""
        block = self.block + interval
        return Window(NEITHER, block) if block.new.calls >= length else Window(block, self.before)

    @property
    def seen(self) -> Both:
        """What is in it."""
        return self.before + self.block


_EMPTY: Final = Window()


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything that is kept between looks.

    `step` is what was counted since the step began, `pending` what no bet was made on yet, `wealth` by gate
    over the whole Release, `past_old` the old version's earlier steps, `likeness` how alike the two versions'
    answers have been.
    """

    step: Both = NEITHER
    windows: tuple[Window, ...] = (_EMPTY,) * len(WINDOWS)
    pending: Both = NEITHER
    past_old: Counts = NOTHING
    wealth: Mapping[str, Wealth] = field(default_factory=dict)
    likeness: Likeness = NO_LIKENESS

    def at_next_step(self) -> Analysis:
        """Return what is known as another step begins: its numbers begin anew, the bets go on."""
        return Analysis(past_old=self.past_old + self.step.old, wealth=self.wealth, likeness=self.likeness)


def folded(analysis: Analysis, interval: Both, gates: Sequence[Gate], share: float) -> Analysis:
    """Return `analysis` after an interval at `share` (0 to 1) of the new version."""
    known = analysis.windows[-1].seen
    pending = analysis.pending + interval
    nobody_is_old = share >= 1 or (pending.new.calls >= WAITS_FOR_OLD and not pending.old.calls)
    enough = min(pending.old.calls, pending.new.calls) >= LEAST_OF_EACH
    wealth = analysis.wealth
    if nobody_is_old:
        before = wealth.get(_ALONE, ALONE_AT_FIRST)
        allowed = min(_reference(analysis) + UNBEARABLE, 1 - UNBEARABLE)
        wealth = {**wealth, _ALONE: alone(before, allowed, pending.new.calls, pending.new.errors)}
    elif enough:
        bets = {
            gate.name: compared(wealth.get(gate.name, AT_FIRST), *gate.bad(pending, known)) for gate in gates
        }
        wealth = {**wealth, **bets}
    if nobody_is_old or enough:
        pending = NEITHER
    windows = tuple(
        window.moved(interval, length) for window, (length, _) in zip(analysis.windows, WINDOWS, strict=True)
    )
    return replace(analysis, step=analysis.step + interval, windows=windows, pending=pending, wealth=wealth)


def judged(analysis: Analysis, gates: Sequence[Gate], share: float, min_requests: int) -> Verdict:
    """Return what the numbers say: FAIL at once, PASS only with enough of them and none beyond its limit."""
    readings = tuple(_reading(analysis, gate, _needed(gate, len(gates))) for gate in gates)
    for reading in readings:
        if reading.outcome is Outcome.FAIL:
            return Verdict(Outcome.FAIL, _failure(reading), readings)
    new, old = analysis.step.new.calls, analysis.step.old.calls
    if new < min_requests:
        return Verdict(Outcome.WAIT, f"not enough traffic: {new} of {min_requests} requests", readings)
    wanted = _wanted_of_old(share, min_requests)
    if old < wanted:
        reason = f"not enough traffic to compare with: {old} of {wanted} requests on the old version"
        return Verdict(Outcome.WAIT, reason, readings)
    if analysis.step.new.error_rate >= HOPELESS:
        return Verdict(Outcome.WAIT, "errorRate: most requests fail, on the old version too", readings)
    for reading in readings:
        if reading.outcome is Outcome.WAIT:
            return Verdict(Outcome.WAIT, f"{_failure(reading)}, not yet certain", readings)
    return Verdict(Outcome.PASS, f"every gate holds after {new} requests{_compared(readings)}", readings)


def _needed(gate: Gate, gates: int) -> float:
    """Return the evidence that counts, by the gate's part of the doubt."""
    if isinstance(gate, ErrorRate):
        return 1 / DOUBT_OF_ERRORS
    return (gates - 1) / DOUBT_OF_OTHERS


def _reading(analysis: Analysis, gate: Gate, needed: float) -> Reading:
    log_evidence = analysis.wealth.get(gate.name, AT_FIRST).log_evidence
    if isinstance(gate, ErrorRate):
        # Both are held against what the comparison needs.
        by_itself = analysis.wealth.get(_ALONE, ALONE_AT_FIRST).log_evidence
        log_evidence = max(log_evidence, by_itself + log(DOUBT_ALONE / DOUBT_OF_ERRORS))
    evidence = exp(min(max(log_evidence, -_LARGEST), _LARGEST))
    shown = _figures(analysis, gate, analysis.step)
    outcome = Outcome.WAIT if _is_beyond(gate, shown) else Outcome.PASS
    if log_evidence >= log(needed):
        windows = zip(analysis.windows, WINDOWS, strict=True)
        looks = [(window.seen, deviations) for window, (_, deviations) in windows]
        if analysis.step.new.calls >= LONG:
            looks.append((analysis.step, STEP_DEVIATIONS))
        for seen, deviations in looks:
            if _is_many(gate, seen.new) and _is_beyond(gate, _figures(analysis, gate, seen, deviations)):
                shown, outcome = _figures(analysis, gate, seen), Outcome.FAIL
                break
    return Reading(gate.name, outcome, *shown, gate.limit, evidence, needed)


def _figures(
    analysis: Analysis, gate: Gate, seen: Both, deviations: float = 0.0
) -> tuple[float | None, float | None]:
    old = gate.figure(seen.old)
    if old is None:
        # At a share of 100 nobody is on the old version any more.
        old = gate.figure(analysis.past_old)
    return old, gate.figure(seen.new, deviations)


def _is_beyond(gate: Gate, figures: tuple[float | None, float | None]) -> bool:
    old, new = figures
    if new is None:
        return False
    if old is None:
        return isinstance(gate, ErrorRate) and new > UNBEARABLE
    return gate.is_beyond(old, new)


def _is_many(gate: Gate, new: Counts) -> bool:
    if isinstance(gate, ErrorRate):
        return new.errors >= LEAST_BAD
    return not isinstance(gate, RefusalRate) or new.filtered >= LEAST_BAD


def _reference(analysis: Analysis) -> float:
    old = analysis.past_old + analysis.step.old
    return (old.errors + 1) / (old.calls + 2) if old.calls else 0.0


def _wanted_of_old(share: float, min_requests: int) -> int:
    """Return how many requests the old version must have had: half of what goes with those of the new one."""
    return int(min(min_requests, min_requests * (1 - share) / share / 2)) if share else min_requests


def _compared(readings: Sequence[Reading]) -> str:
    """Return the figures that were compared, "" where too little is known of the new version."""
    known = [
        f"{reading.gate} {reading.new:.4g} (old {_figure(reading.old)})"
        for reading in readings
        if reading.new is not None
    ]
    return f": {', '.join(known)}" if known else ""


def _failure(reading: Reading) -> str:
    old, new = _figure(reading.old), _figure(reading.new)
    return f"{reading.gate}: {new} on the new version, {old} on the old one, limit {reading.limit:g}"


def _figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"
