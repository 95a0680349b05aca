"""The status of a custom resource from what the control plane says, and what of it is to be written (pure).

Conditions follow https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/1623-standardize-conditions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from control_plane.controller.resources import CustomResource
from control_plane.controller.verdicts import Programming, Standing, Verdict

ACCEPTED: Final = "Accepted"
PROGRAMMED: Final = "Programmed"
MAX_MESSAGE: Final = 4_096
_OURS: Final = (ACCEPTED, PROGRAMMED)
# Every field that a status of ours may have; one that is not said any more is taken back.
_COUNTS: Final = ("conditions", "sidecars", "lastDecision")
_FIELDS: Final = ("observedGeneration", "conditions", "sidecars", "phase", "step", "share", "lastDecision")


@dataclass(frozen=True, slots=True)
class Update:
    """What is to be written into a status. One that is not `urgent` has other counts and words only."""

    status: Mapping[str, Any]
    urgent: bool


class _Said(NamedTuple):
    """What a condition says."""

    status: str
    reason: str
    message: str


def update_for(
    resource: CustomResource, verdict: Verdict, standing: Standing, now: datetime
) -> Update | None:
    """Return what of `resource`'s status is not as it should be, None when all is.

    Args:
        resource: as it is now, of the generation that `verdict` is of.
        verdict: the control plane's.
        standing: what is in force, not older than `verdict`.
        now: the time of what changes now.
    """
    wanted = _wanted(resource, verdict, standing, now)
    changed = {name: wanted.get(name) for name in _FIELDS if wanted.get(name) != resource.status.get(name)}
    if not changed:
        return None
    return Update(changed, urgent=_without_counts(wanted) != _without_counts(resource.status))


def _wanted(resource: CustomResource, verdict: Verdict, standing: Standing, now: datetime) -> dict[str, Any]:
    programming = standing.programming.get(resource.key)
    before = _conditions(resource.status)
    said = {ACCEPTED: _accepted(verdict), PROGRAMMED: _programmed(verdict, programming)}
    conditions: list[Mapping[str, Any]] = [
        _condition(before.get(name, {}), name, said[name], resource.generation, now) for name in _OURS
    ]
    # What others say of the resource in conditions of their own stays.
    conditions += [condition for name, condition in before.items() if name not in _OURS]
    wanted: dict[str, Any] = {"observedGeneration": resource.generation, "conditions": conditions}
    if programming is not None:
        wanted["sidecars"] = {"current": programming.current, "total": programming.total}
    progress = standing.progress.get(resource.key.name) if resource.key.kind == "Release" else None
    if progress is not None:
        wanted |= {
            "phase": progress.phase,
            "step": progress.step,
            "share": progress.share,
            "lastDecision": progress.reason[:MAX_MESSAGE],
        }
    return wanted


def _accepted(verdict: Verdict) -> _Said:
    if verdict.accepted and verdict.unresolved is not None:
        return _Said("False", *verdict.unresolved)
    if verdict.accepted:
        return _Said("True", ACCEPTED, verdict.message or "The control plane has taken it.")
    return _Said("False", verdict.reason, verdict.message or "The control plane has refused it.")


def _programmed(verdict: Verdict, programming: Programming | None) -> _Said:
    if not verdict.accepted:
        left = "the last accepted spec stays in force" if verdict.in_force else "nothing of it is in force"
        return _Said("False", verdict.reason, f"It is not accepted; {left}.")
    if programming is None:
        return _Said("Unknown", "Pending", "The control plane has not said yet.")
    counts = f"{programming.current} of {programming.total} connected sidecars have it"
    if programming.programmed:
        return _Said("True", PROGRAMMED, f"In force; {counts}.")
    return _Said("False", "NotInForce", f"Not in the policy in force; {counts}.")


def _condition(
    before: Mapping[str, Any], name: str, said: _Said, generation: int, now: datetime
) -> dict[str, Any]:
    since = before.get("lastTransitionTime") if before.get("status") == said.status else None
    return {
        "type": name,
        "status": said.status,
        "observedGeneration": generation,
        "lastTransitionTime": since or now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "reason": said.reason,
        "message": said.message[:MAX_MESSAGE],
    }


def _conditions(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    found = status.get("conditions")
    if not isinstance(found, Sequence):
        return {}
    return {str(item.get("type")): item for item in found if isinstance(item, Mapping)}


def _without_counts(status: Mapping[str, Any]) -> list[Any]:
    conditions = [
        {part: item for part, item in condition.items() if name != PROGRAMMED or part != "message"}
        for name, condition in sorted(_conditions(status).items())
    ]
    return [conditions, *(status.get(name) for name in _FIELDS if name not in _COUNTS)]
