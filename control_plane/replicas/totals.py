"""What all sidecars of one replica counted together, since it began: as if they were one (pure).

Counts only grow, whichever sidecars come and go, so that whoever missed a part of it has lost nothing. What
is used of limits is that of now.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from control_plane.dashboard.rings import count_into
from control_plane.dashboard.traffic import (
    MAX_LINES,
    cache_numbers,
    tier_numbers,
    told_pairs,
    version_numbers,
)
from control_plane.dashboard.uses import UsesEverywhere
from control_plane.push.sidecars import Told
from control_plane.push.views import TierStatistics, VersionStatistics
from control_plane.releases.histograms import minus
from ext_proc.contract.cache import CacheStatistics
from ext_proc.contract.uses import MAX_USES

_VERSION_WIDTH = 7
_TIER_WIDTH = 4


@dataclass(slots=True)
class _Version:
    numbers: list[int] = field(default_factory=lambda: [0] * _VERSION_WIDTH)
    duration: dict[int, int] = field(default_factory=dict)
    first_byte: dict[int, int] = field(default_factory=dict)


class Totals:
    """Adds up reports. `epoch` is unique to this process."""

    def __init__(self, epoch: str) -> None:
        self._epoch = epoch
        self._versions: dict[tuple[str, str], _Version] = {}
        self._tiers: dict[str, list[int]] = {}
        self._cache = [0, 0, 0, 0]
        self._uses = UsesEverywhere()
        self.changed = False

    def told(self, before: Told, after: Told) -> None:
        """Add what came between two reports of one sidecar."""
        if after.uses is not before.uses and after.uses != before.uses:
            self._uses.told(before, after)
            self.changed = True
        if after.versions is not before.versions or after.tiers is not before.tiers:
            self._add(before, after)
        if after.cache is not before.cache and before.cache != CacheStatistics():
            self._add_cache(before.cache, after.cache)

    def total(self) -> Told:
        """Return all of it."""
        self.changed = False
        hits, misses, micros, tokens = self._cache
        return Told(
            epoch=self._epoch,
            versions=tuple(_told_version(*key, one) for key, one in sorted(self._versions.items())),
            tiers=tuple(TierStatistics(tier, *numbers) for tier, numbers in sorted(self._tiers.items())),
            cache=CacheStatistics(
                hits=hits, misses=misses, saved_cost_micros=micros, saved_prompt_tokens=tokens
            ),
            uses=self._uses.most(MAX_USES),
        )

    def _add(self, before: Told, after: Told) -> None:
        if not before.epoch:
            # Counted before it came here: where it begins, not what came.
            return
        anew = before.epoch != after.epoch
        for earlier, later in told_pairs(before.versions, after.versions, anew=anew):
            if earlier is None or earlier.calls != later.calls:
                self._add_version(earlier or VersionStatistics(later.model, later.version), later)
        for was, now in told_pairs(before.tiers, after.tiers, anew=anew):
            if was is None or was.requests != now.requests:
                if now.tier not in self._tiers and len(self._tiers) >= MAX_LINES:
                    continue
                numbers = self._tiers.setdefault(now.tier, [0] * _TIER_WIDTH)
                _grow(numbers, tier_numbers(now), tier_numbers(was or TierStatistics(now.tier)))
                self.changed = True

    def _add_version(self, earlier: VersionStatistics, later: VersionStatistics) -> None:
        key = later.model, later.version
        if key not in self._versions and len(self._versions) >= MAX_LINES:
            return
        found = self._versions.setdefault(key, _Version())
        _grow(found.numbers, version_numbers(later), version_numbers(earlier))
        count_into(found.duration, minus(later.duration, earlier.duration))
        count_into(found.first_byte, minus(later.first_byte, earlier.first_byte))
        self.changed = True

    def _add_cache(self, before: CacheStatistics, after: CacheStatistics) -> None:
        now, then = cache_numbers(after), cache_numbers(before)
        if any(one < other for one, other in zip(now, then, strict=True)):
            then = (0,) * len(now)  # counting began anew
        if now != then:
            _grow(self._cache, now, then)
            self.changed = True


def _told_version(model: str, version: str, found: _Version) -> VersionStatistics:
    calls, errors, throttled, refused, abandoned, input_tokens, output_tokens = found.numbers
    return VersionStatistics(
        model=model,
        version=version,
        calls=calls,
        errors=errors,
        throttled=throttled,
        refused=refused,
        abandoned=abandoned,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        duration=dict(found.duration),
        first_byte=dict(found.first_byte),
    )


def _grow(total: list[int], now: tuple[int, ...], then: tuple[int, ...]) -> None:
    for place, (later, earlier) in enumerate(zip(now, then, strict=True)):
        total[place] += max(later - earlier, 0)
