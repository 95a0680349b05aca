"""Whether the mesh is ready, as a value: no HTTP here."""

from __future__ import annotations

from dataclasses import dataclass

from control_plane.push.subscribers import Subscribers


@dataclass(frozen=True, slots=True)
class Readiness:
    """The answer to `/readyz`; `reason` says what is missing, "" when nothing is."""

    ready: bool
    sidecars: int
    reason: str = ""


def readiness(subscribers: Subscribers, min_ready_sidecars: int) -> Readiness:
    """Say whether at least `min_ready_sidecars` connected sidecars serve the current snapshot."""
    in_force = len(subscribers.in_force())
    if in_force >= min_ready_sidecars:
        return Readiness(True, in_force)
    connected = [subscriber for subscriber in subscribers.by_id.values() if subscriber.connected]
    for subscriber in connected:
        if subscriber.refusal is not None:
            reason = f"sidecar {subscriber.identity.subscriber_id} refused: {subscriber.refusal.reason}"
            return Readiness(False, in_force, reason)
    if len(connected) < min_ready_sidecars:
        reason = f"{len(connected)} of {min_ready_sidecars} sidecars connected"
    else:
        reason = f"{in_force} of {min_ready_sidecars} sidecars serve the current snapshot"
    return Readiness(False, in_force, reason)
