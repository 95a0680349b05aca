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
    """Say whether at least `min_ready_sidecars` connected sidecars serve a policy of this control plane.

    One that is taking a change over serves meanwhile: readiness does not come and go with each change.
    """
    connected = [sidecar for sidecar in sidecars if sidecar.connected]
    serving = sum(sidecar.serving for sidecar in connected)
    if serving >= min_ready_sidecars:
        return Readiness(True, serving)
    for sidecar in connected:
        if sidecar.nack is not None:
            return Readiness(False, serving, f"sidecar {sidecar.id} refused: {sidecar.nack}")
    if len(connected) < min_ready_sidecars:
        reason = f"{len(connected)} of {min_ready_sidecars} sidecars connected"
    else:
        reason = f"{serving} of {min_ready_sidecars} sidecars serve the policy"
    return Readiness(False, serving, reason)
