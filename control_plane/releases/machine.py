"""How far a Release is and what moves it: by itself, by its numbers, by people (pure).

    pending → progressing(step) → promoting → done
                │  ▲       └────→ rolling-back → rolled-back
              pause resume
                ▼  │
               paused ── abort (from wherever it has not ended) → aborted

Promoting and rolling back last until every sidecar obeys. A Release begins anew when its document changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from control_plane.releases.analysis import Outcome, Verdict

SETTLED_AFTER_S: Final = 10.0
"""A sidecar that does not obey by then holds nothing up: it is shown as such."""
MAX_DECISIONS: Final = 50
WAITED: Final = "waited for longer than maxWait"


class Phase(StrEnum):
    """Where a Release is."""

    PENDING = "pending"
    PROGRESSING = "progressing"
    PAUSED = "paused"
    PROMOTING = "promoting"
    DONE = "done"
    ROLLING_BACK = "rolling-back"
    ROLLED_BACK = "rolled-back"
    ABORTED = "aborted"


ENDED: Final = frozenset({Phase.DONE, Phase.ROLLED_BACK, Phase.ABORTED})
ENDING: Final = frozenset({Phase.PROMOTING, Phase.ROLLING_BACK})


class Action(StrEnum):
    """What people can do to a Release."""

    PROMOTE = "promote"
    PAUSE = "pause"
    RESUME = "resume"
    ABORT = "abort"


class ActionRefusedError(Exception):
    """The action does not fit the phase; the message says why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the document asks for: `steps` are shares in percent, growing; times are in seconds.

    With `shadows` the new version is first asked beside the old one, and answers nobody.
    """

    steps: tuple[float, ...]
    bake_s: float
    max_wait_s: float | None = None
    shadows: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """One move, for the record. `at_s` is in seconds since the epoch."""

    at_s: float
    phase: Phase
    step: int
    share: float
    reason: str


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a Release is.

    Attributes:
        begun: the revision of its document that it follows.
        generation: grows with every move; who acts on an older one has lost a race.
        step: counted from 1; 0 before the first, while the new version answers nobody.
        share: percent of the callers on the new version.
        since_s: when this phase and step began, in seconds since the epoch.
        baked_s: how long the step had baked before that.
        decisions: the last moves, the oldest first.
    """

    begun: int
    phase: Phase
    step: int
    share: float
    reason: str
    since_s: float
    baked_s: float = 0.0
    generation: int = 1
    decisions: tuple[Decision, ...] = ()

    @property
    def has_ended(self) -> bool:
        """Whether nothing moves it any more."""
        return self.phase in ENDED


def begun(plan: Plan, revision: int, at_s: float) -> Standing:
    """Return the standing of a Release that was applied with `revision`: at its first step, or before it."""
    blank = Standing(revision, Phase.PENDING, 0, 0.0, "", at_s, generation=0)
    if plan.shadows:
        return _moved(blank, at_s, Phase.PENDING, "applied")
    return _moved(blank, at_s, Phase.PENDING, "applied", step=1, share=plan.steps[0])


def acted(standing: Standing, plan: Plan, action: Action, who: str, at_s: float) -> Standing:
    """Return the standing after somebody's `action`.

    Raises:
        ActionRefusedError: it has ended or is ending, or is paused already, or is not paused.
    """
    if standing.has_ended or standing.phase in ENDING:
        raise ActionRefusedError(f"is {standing.phase} and cannot be changed any more; apply a new one")
    reason = f"{PAST[action]} by {who}"
    paused = standing.phase is Phase.PAUSED
    if action is Action.ABORT:
        return _moved(standing, at_s, Phase.ABORTED, reason, share=0.0)
    if action is Action.PAUSE:
        if paused:
            raise ActionRefusedError("is paused already")
        baked_s = standing.baked_s + at_s - standing.since_s
        moved = _moved(standing, at_s, Phase.PAUSED, reason)
        return replace(moved, baked_s=baked_s)
    if action is Action.RESUME:
        if not paused:
            raise ActionRefusedError("is not paused")
        moved = _moved(standing, at_s, Phase.PROGRESSING, reason)
        return replace(moved, baked_s=standing.baked_s)
    return _next_step(standing, plan, reason, at_s, phase=standing.phase if paused else Phase.PROGRESSING)


def advanced(standing: Standing, plan: Plan, verdict: Verdict, at_s: float) -> Standing:
    """Return the standing after its numbers were looked at; the same object when nothing moves."""
    if standing.phase is Phase.PENDING:
        first = "callers follow the first step" if standing.step else "the new version is asked for nobody"
        return replace(
            _moved(standing, at_s, Phase.PROGRESSING, first),
            since_s=standing.since_s,
        )
    if standing.phase is not Phase.PROGRESSING:
        return standing
    if verdict.outcome is Outcome.FAIL:
        return _moved(standing, at_s, Phase.ROLLING_BACK, verdict.reason, share=0.0)
    baked_s = standing.baked_s + at_s - standing.since_s
    if verdict.outcome is Outcome.PASS and baked_s >= plan.bake_s:
        return _next_step(standing, plan, verdict.reason, at_s, phase=Phase.PROGRESSING)
    # Whoever resumes what had waited too long gives it that time anew; what has baked has baked.
    waited_s = at_s - standing.since_s
    if plan.max_wait_s is not None and baked_s >= plan.bake_s and waited_s >= plan.max_wait_s:
        reason = f"{WAITED}: {verdict.reason}"
        return replace(_moved(standing, at_s, Phase.PAUSED, reason), baked_s=baked_s)
    return standing


def settled(standing: Standing, *, obeyed: bool, at_s: float) -> Standing:
    """Return the standing once its last share is in force everywhere (`obeyed`), or was waited for."""
    if standing.phase not in ENDING or not (obeyed or at_s >= standing.since_s + SETTLED_AFTER_S):
        return standing
    phase = Phase.DONE if standing.phase is Phase.PROMOTING else Phase.ROLLED_BACK
    return _moved(standing, at_s, phase, standing.reason)


def waiting_for(standing: Standing, plan: Plan, verdict: Verdict, at_s: float) -> str:
    """Return why it is where it is, in words: for a step, what it still waits for."""
    if standing.phase not in (Phase.PENDING, Phase.PROGRESSING):
        return standing.reason
    left_s = plan.bake_s - standing.baked_s - (at_s - standing.since_s)
    reason = verdict.reason or standing.reason
    if verdict.outcome is Outcome.PASS and left_s > 0:
        reason = f"baking, {left_s:.0f} s left: {reason}"
    return reason if standing.step else f"in the shadow: {reason}"


def _next_step(standing: Standing, plan: Plan, reason: str, at_s: float, *, phase: Phase) -> Standing:
    if standing.step >= len(plan.steps):
        return _moved(standing, at_s, Phase.PROMOTING, reason, share=100.0)
    share = plan.steps[standing.step]
    return _moved(standing, at_s, phase, reason, step=standing.step + 1, share=share)


def _moved(
    standing: Standing,
    at_s: float,
    phase: Phase,
    reason: str,
    *,
    step: int | None = None,
    share: float | None = None,
) -> Standing:
    step = standing.step if step is None else step
    share = standing.share if share is None else share
    made = Decision(at_s, phase, step, share, reason)
    decisions: Sequence[Decision] = (*standing.decisions, made)[-MAX_DECISIONS:]
    return Standing(
        standing.begun,
        phase,
        step,
        share,
        reason,
        at_s,
        generation=standing.generation + 1,
        decisions=tuple(decisions),
    )


PAST: Final = {
    Action.PROMOTE: "promoted",
    Action.PAUSE: "paused",
    Action.RESUME: "resumed",
    Action.ABORT: "aborted",
}
