"""What others see of a sidecar: frozen values, no state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from control_plane.releases.counts import Compared, Counts
from ext_proc.contract.cache import CacheEntry, CacheStatistics


class EnvoyState(StrEnum):
    """How a sidecar's Envoy is, as its agent says."""

    UNKNOWN = "unknown"
    LIVE = "live"
    WARMING = "warming"
    DRAINING = "draining"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class VersionStatistics:
    """How one version of one Model does at one sidecar, counted since the sidecar's epoch began.

    `duration` and `first_byte` count calls that succeeded: bucket i holds those above 1.1^(i-1) and at most
    1.1^i milliseconds.
    """

    model: str
    version: str
    calls: int = 0
    errors: int = 0
    throttled: int = 0
    refused: int = 0
    abandoned: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    duration: Mapping[int, int] = field(default_factory=dict)
    first_byte: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TierStatistics:
    """How the callers of one Tier ("": of none) do at one sidecar, counted since the sidecar's epoch began.

    All requests count, answers of the sidecar's own too; `limited` are its own 429s.
    """

    tier: str
    requests: int = 0
    limited: int = 0
    errors: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class ReleaseCounts:
    """How one of a Release's versions does at one sidecar, counted since the sidecar's epoch began."""

    release: str
    version: str
    counts: Counts


@dataclass(frozen=True, slots=True)
class Released:
    """What one sidecar counted of Releases, and found out of their versions itself.

    `epoch` "": it has not told anything yet.
    """

    sidecar: str
    epoch: str
    counts: tuple[ReleaseCounts, ...]
    compared: Mapping[str, Compared] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SidecarView:
    """One sidecar.

    Attributes:
        id: what it calls itself.
        workload: what Policies name.
        labels: what else it says of itself.
        build: the version of its software.
        connected: its stream is open.
        connected_at: when its last stream was opened.
        pushed: the version that it was given last; "" before the first.
        acknowledged: the version that it holds; "" when none is known.
        nack: why it refused what it was given last, or None.
        serving: it is connected and holds a policy of this control plane, be it the one before the newest.
        in_force: it is connected and holds the newest policy that is not halted.
        envoy: how its Envoy is.
        envoy_version: the version of its Envoy, or "".
        epoch: when this changes, `versions` began anew.
        versions: how each version of each Model does there.
        cache: what its cache did since its agent began, and holds now.
        replica: the replica of the control plane that it is connected to, or was last; "" for the only one.
    """

    id: str
    workload: str
    connected: bool
    connected_at: datetime
    labels: Mapping[str, str] = field(default_factory=dict)
    build: str = ""
    pushed: str = ""
    acknowledged: str = ""
    nack: str | None = None
    serving: bool = False
    in_force: bool = False
    envoy: EnvoyState = EnvoyState.UNKNOWN
    envoy_version: str = ""
    epoch: str = ""
    versions: tuple[VersionStatistics, ...] = ()
    cache: CacheStatistics = field(default_factory=CacheStatistics)
    replica: str = ""


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """One cached answer, and the sidecars that keep it."""

    entry: CacheEntry
    sidecars: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gathered:
    """Cached answers, sorted by key; `more`: there are others behind the last one.

    `unanswered` names the connected sidecars of which some or all answers are missing.
    """

    answers: tuple[KeptAnswer, ...] = ()
    more: bool = False
    unanswered: tuple[str, ...] = ()
