"""What is told of a Release's moves, and in which form (pure).

The form is that of Standard Webhooks: `type`, `timestamp` and `data`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from control_plane.releases.analysis import Verdict
from control_plane.releases.counts import NEITHER, Both, Counts
from control_plane.releases.histograms import quantile
from control_plane.releases.machine import PAST, WAITED, Action, Phase, Standing


class Event(StrEnum):
    """What happened. A rollback and a promotion are told twice: when they are decided, and once all obey."""

    STARTED = "release.started"
    STEP = "release.step"
    PAUSED = "release.paused"
    RESUMED = "release.resumed"
    PROMOTED = "release.promoted"
    DONE = "release.done"
    ROLLING_BACK = "release.rolling-back"
    ROLLED_BACK = "release.rolled-back"
    ABORTED = "release.aborted"


_OF_PHASE: Final = {
    Phase.PAUSED: Event.PAUSED,
    Phase.PROMOTING: Event.PROMOTED,
    Phase.DONE: Event.DONE,
    Phase.ROLLING_BACK: Event.ROLLING_BACK,
    Phase.ROLLED_BACK: Event.ROLLED_BACK,
    Phase.ABORTED: Event.ABORTED,
}


class Cause(StrEnum):
    """What moved a Release: a document, a person, its numbers, sidecars that obey, or a gate that failed."""

    APPLIED = "applied"
    PERSON = "person"
    PASSED = "passed"
    WAITED = "waited"
    OBEYED = "obeyed"
    ERROR_RATE = "errorRate"
    LATENCY = "latencyP95"
    FIRST_BYTE = "ttftP95"
    COST = "cost"
    OUTPUT_LENGTH = "outputLength"
    REFUSAL_RATE = "refusalRate"
    PROMETHEUS = "prometheus"
    OTHER_GATE = "other"


_ALWAYS: Final = {
    Event.STARTED: Cause.APPLIED,
    Event.RESUMED: Cause.PERSON,
    Event.ABORTED: Cause.PERSON,
    Event.DONE: Cause.OBEYED,
    Event.ROLLED_BACK: Cause.OBEYED,
}


@dataclass(frozen=True, slots=True)
class Basis:
    """What a move was decided on; None where nothing was looked at."""

    verdict: Verdict | None = None
    counts: Both = NEITHER


def event_of(before: Standing | None, after: Standing) -> Event | None:
    """Return what is told of a move; None of one that changes nothing for anybody."""
    if before is None or before.begun != after.begun:
        return Event.STARTED
    if after.phase is not before.phase and after.phase in _OF_PHASE:
        return _OF_PHASE[after.phase]
    if before.phase is Phase.PAUSED and after.phase is Phase.PROGRESSING:
        return Event.RESUMED
    return Event.STEP if after.step != before.step else None


def cause_of(event: Event, after: Standing) -> Cause:
    """Return why a Release moved to `after`, as one of few words."""
    if event in _ALWAYS:
        return _ALWAYS[event]
    if event is Event.ROLLING_BACK:
        gate = after.reason.partition(":")[0].partition("[")[0]
        return Cause(gate) if gate in set(Cause) else Cause.OTHER_GATE
    if event is Event.PAUSED:
        return Cause.WAITED if after.reason.startswith(WAITED) else Cause.PERSON
    return Cause.PERSON if after.reason.startswith(f"{PAST[Action.PROMOTE]} by ") else Cause.PASSED


def body_of(
    event: Event, name: str, versions: Mapping[str, str], standing: Standing, basis: Basis
) -> dict[str, Any]:
    """Return what a webhook is sent; `versions` are the document's `model`, `from` and `to`.

    It holds numbers, names that people gave and reasons; nothing of any request.
    """
    data: dict[str, Any] = {
        "release": name,
        **versions,
        "phase": standing.phase,
        "step": standing.step,
        "share": standing.share,
        "reason": standing.reason,
        "old": _counts(basis.counts.old),
        "new": _counts(basis.counts.new),
        "gates": [asdict(reading) for reading in basis.verdict.readings] if basis.verdict else [],
    }
    at = datetime.fromtimestamp(standing.since_s, UTC)
    return {"type": event, "timestamp": at.isoformat().replace("+00:00", "Z"), "data": data}


def body_text(body: Mapping[str, Any]) -> str:
    """Return `body` as it is sent and signed; ASCII, so that no database or wire minds any of it."""
    return json.dumps(body, separators=(",", ":"))


def _counts(counts: Counts) -> dict[str, Any]:
    return {
        "requests": counts.calls,
        "errors": counts.errors,
        "latencyP95Ms": quantile(counts.duration, 0.95),
        "ttftP95Ms": quantile(counts.first_byte, 0.95),
    }
