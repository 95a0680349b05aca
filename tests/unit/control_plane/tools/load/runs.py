"""Calls, outcomes and reports for tests."""

from __future__ import annotations

from typing import Any

from control_plane.tools.load.calls import Call, Operation, asking, call
from control_plane.tools.load.generator import Ending
from control_plane.tools.load.mix import PromptMix
from control_plane.tools.load.plan import Bounds, ClosedLoop, OpenLoop, Plan
from control_plane.tools.load.report import Report, Subject, report
from control_plane.tools.load.tally import Tally
from control_plane.tools.load.verdicts import Verdict, failed
from control_plane.tools.load.wire import Outcome

SUBJECT = Subject("http://127.0.0.1:1/v1", "m", Operation.CHAT, False, "a prompt")
MIX = PromptMix(Operation.CHAT, "m")


def question(operation: Operation = Operation.CHAT, questions: int = 1) -> Call:
    """Return a call."""
    return call(operation, asking(operation, "m", "hello"), questions)


def outcome(began: float, seconds: float, result: str = "200", **more: Any) -> Outcome:
    """Return what became of a call that took so long."""
    verdict = Verdict("200", True, 3, 5) if result == "200" else failed(result)
    return Outcome(verdict, began, began + seconds, **more)


def tally(*seconds: float, errors: int = 0) -> Tally:
    """Return the tally of calls that followed each other, and of some that were refused at once."""
    made = Tally()
    now = 0.0
    for one in seconds:
        made.record(outcome(now, one), now, 0.0)
        now += one
    for _ in range(errors):
        made.record(outcome(now, 0.0, "503"), now, 0.0)
    made.started = made.ended
    made.seconds = now
    return made


def finished(
    *seconds: float,
    errors: int = 0,
    pace: ClosedLoop | OpenLoop | None = None,
    ended: Ending = Ending.REQUESTS,
) -> Report:
    """Return the report of such a run."""
    plan = Plan(MIX, pace or ClosedLoop(2), Bounds(len(seconds) + errors, 60))
    return report(
        SUBJECT, plan, tally(*seconds, errors=errors), ended, at="2026-01-01T00:00:00Z", processes=1
    )
