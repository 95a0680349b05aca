"""Memory and descriptors of processes over time, and whether they grow (Linux)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.harness.processes import Child, rss_bytes

EVERY_S: Final = 2.0
MIB: Final = 1024 * 1024
# Before, a process still fills what it keeps; and a shorter life says nothing of the next day.
SETTLES_S: Final = 60.0
LIFE_S: Final = 150.0
_ACCEPTED: Final = "at port"


@dataclass(frozen=True, slots=True)
class Sample:
    """What one process held at a time (monotonic seconds): descriptors by what they are of."""

    at: float
    rss_bytes: int
    kinds: Mapping[str, int]

    @property
    def descriptors(self) -> int:
        """How many there were, but for the connections that others opened: those grow with the load."""
        return sum(count for kind, count in self.kinds.items() if not kind.startswith(_ACCEPTED))


@dataclass(slots=True)
class Life:
    """One process from its first sample to its last."""

    role: str
    samples: list[Sample] = field(default_factory=list)

    @property
    def lasted_s(self) -> float:
        """How long it was seen."""
        return self.samples[-1].at - self.samples[0].at if self.samples else 0.0


@dataclass(frozen=True, slots=True)
class Growth:
    """How a process grew once it had settled: by a straight line through its samples."""

    role: str
    pid: int
    lasted_s: float
    rss_mib: float
    rss_mib_per_hour: float
    rss_mib_more: float
    descriptors: int
    descriptors_more: int
    # What there were more of.
    kinds_more: Mapping[str, int]


class Watch:
    """Samples the processes that `listed` returns."""

    def __init__(self, listed: Callable[[], Iterable[Child]]) -> None:
        self.lives: dict[int, Life] = {}
        self._listed = listed

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            await asyncio.to_thread(self.sample)
            await asyncio.sleep(EVERY_S)

    def sample(self) -> None:
        """Look at each process once."""
        sockets = _sockets()
        for child in self._listed():
            try:
                kinds = _kinds(child.pid, sockets)
            except OSError:
                continue
            life = self.lives.setdefault(child.pid, Life(child.role))
            life.samples.append(Sample(time.monotonic(), rss_bytes(child.pid), kinds))

    def grown(self) -> list[Growth]:
        """Return how those grew that lived long enough to say."""
        return [
            growth(life.role, pid, life.samples)
            for pid, life in self.lives.items()
            if life.lasted_s >= LIFE_S and life.role != "other"
        ]


def growth(role: str, pid: int, samples: Sequence[Sample]) -> Growth:
    """Return the growth of one process; what it held before it had settled is left out."""
    settled = [one for one in samples if one.at >= samples[0].at + SETTLES_S] or list(samples)
    third = max(1, len(settled) // 3)
    early, late = settled[:third], settled[-third:]
    return Growth(
        role,
        pid,
        samples[-1].at - samples[0].at,
        settled[-1].rss_bytes / MIB,
        slope([one.at for one in settled], [one.rss_bytes / MIB for one in settled]) * 3600,
        (_median([one.rss_bytes for one in late]) - _median([one.rss_bytes for one in early])) / MIB,
        settled[-1].descriptors,
        int(_median([one.descriptors for one in late]) - _median([one.descriptors for one in early])),
        {
            kind: more
            for kind in settled[-1].kinds
            if not kind.startswith(_ACCEPTED) and (more := _more(kind, early, late)) > 0
        },
    )


def _more(kind: str, early: Sequence[Sample], late: Sequence[Sample]) -> int:
    return int(_median([one.kinds.get(kind, 0) for one in late])) - int(
        _median([one.kinds.get(kind, 0) for one in early])
    )


def _sockets() -> dict[str, str]:
    """Return where each TCP socket of this machine ends, by its inode: the lower port is the server's."""
    lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    found = {}
    for words in map(str.split, lines):
        here, there = (int(words[at].rpartition(":")[2], 16) for at in (1, 2))
        found[words[9]] = f"to port {there}" if 0 < there < here else f"{_ACCEPTED} {here}"
    return found


def _kinds(pid: int, sockets: Mapping[str, str]) -> Counter[str]:
    """Count a process's descriptors: by the port of a connection, or what they are.

    Raises:
        OSError: the process is gone, or is somebody else's.
    """
    kinds: Counter[str] = Counter()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except FileNotFoundError:
            continue
        name, _, number = target.partition(":")
        if name == "socket":
            kinds[sockets.get(number.strip("[]"), "other sockets")] += 1
        else:
            kinds[f"{name}s" if number else name] += 1
    return kinds


def slope(places: Sequence[float], values: Sequence[float]) -> float:
    """Return the slope of the straight line through points that has the least squares; 0.0 of one point."""
    middle_at, middle = sum(places) / len(places), sum(values) / len(values)
    spread = sum((one - middle_at) ** 2 for one in places)
    if not spread:
        return 0.0
    return sum((at - middle_at) * (value - middle) for at, value in zip(places, values, strict=True)) / spread


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
