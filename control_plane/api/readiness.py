"""Whether the mesh is ready, as a value: no HTTP here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from control_plane.api.ports import Sidecar


@dataclass(frozen=True, slots=True)
class Readiness:
    """The answer to `/readyz`; `reason` says what is missing, "" when nothing is."""

    ready: bool
    sidecars: int
    reason: str = ""


def readiness(sidecars: Sequence[Sidecar], min_ready_sidecars: int) -> Readiness:
    """Say whether at least `min_ready_sidecars` connected sidecars serve what is in force."""
    connected = [sidecar for sidecar in sidecars if sidecar.connected]
    in_force = sum(sidecar.in_force for sidecar in connected)
    if in_force >= min_ready_sidecars:
        return Readiness(True, in_force)
    for sidecar in connected:
        if sidecar.nack is not None:
            return Readiness(False, in_force, f"sidecar {sidecar.id} refused: {sidecar.nack}")
    if len(connected) < min_ready_sidecars:
        reason = f"{len(connected)} of {min_ready_sidecars} sidecars connected"
    else:
        reason = f"{in_force} of {min_ready_sidecars} sidecars serve the current snapshot"
    return Readiness(False, in_force, reason)
