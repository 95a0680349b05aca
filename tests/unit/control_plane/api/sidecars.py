"""Sidecars as plain values."""

from dataclasses import dataclass, field

from ext_proc.contract.cache import CacheStatistics


@dataclass(frozen=True, slots=True)
class Shown:
    """What the API looks at."""

    id: str = "local"
    workload: str = "default"
    pushed: str = ""
    acknowledged: str = ""
    connected: bool = True
    in_force: bool = False
    serving: bool = False
    nack: str | None = None
    cache: CacheStatistics = field(default_factory=CacheStatistics)
