"""A Lease as what decides who leads (pure): who holds it, and from when on another may take it.

Whether a Lease has run out is told by how long it was seen unchanged, not by comparing two machines' clocks.
https://kubernetes.io/docs/concepts/architecture/leases/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

DURATION_S: Final = 15
RENEW_EVERY_S: Final = 4.0
RENEW_WITHIN_S: Final = 10.0
"""Whoever has not renewed for so long stops leading, well before another may begin."""
LOOK_EVERY_S: Final = 2.5


@dataclass(frozen=True, slots=True)
class Record:
    """What a Lease says. `version` is the API server's, for writing without overwriting
    another's; None while there is no Lease."""

    holder: str = ""
    duration_s: int = DURATION_S
    acquired: str | None = None
    renewed: str | None = None
    transitions: int = 0
    version: str | None = None


def record_of(lease: Mapping[str, Any]) -> Record:
    """Read a Lease."""
    spec = lease.get("spec") or {}
    return Record(
        str(spec.get("holderIdentity") or ""),
        int(spec.get("leaseDurationSeconds") or DURATION_S),
        spec.get("acquireTime"),
        spec.get("renewTime"),
        int(spec.get("leaseTransitions") or 0),
        str((lease.get("metadata") or {}).get("resourceVersion") or ""),
    )


def may_take(record: Record, identity: str, unchanged_s: float) -> bool:
    """Say whether `identity` may hold the Lease, which was seen unchanged for `unchanged_s`."""
    return not record.holder or record.holder == identity or unchanged_s > record.duration_s


def taken(record: Record, identity: str, now: datetime) -> Record:
    """Return the record as `identity` holds it from now on, or goes on holding it."""
    time = _time(now)
    if record.holder == identity:
        return Record(identity, DURATION_S, record.acquired or time, time, record.transitions, record.version)
    return Record(identity, DURATION_S, time, time, record.transitions + 1, record.version)


def released(record: Record, now: datetime) -> Record:
    """Return the record as nobody holds it, so that the next one need not wait."""
    return Record("", 1, record.acquired, _time(now), record.transitions, record.version)


def lease_of(record: Record, name: str, namespace: str) -> dict[str, Any]:
    """Return the Lease as it is written."""
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    if record.version:
        metadata["resourceVersion"] = record.version
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": {
            "holderIdentity": record.holder,
            "leaseDurationSeconds": record.duration_s,
            "acquireTime": record.acquired,
            "renewTime": record.renewed,
            "leaseTransitions": record.transitions,
        },
    }


def _time(now: datetime) -> str:
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
