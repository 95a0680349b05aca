"""What goes through the mesh, from what sidecars tell: summed up by model on arrival, the last minutes kept.

Sidecars tell counts since their epoch; what came since the report before is counted in the step in which it
is told. Memory is bounded by the number of versions and Tiers, whatever the number of sidecars.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from control_plane.dashboard.rings import STEP_S, STEPS, Recent, Ring, count_into, quantiles
from control_plane.dashboard.views import Flow, Rates, Series, Sums, TierRow, Times, VersionRow
from control_plane.push.sidecars import Told
from control_plane.push.views import TierStatistics, VersionStatistics
from control_plane.releases.histograms import Histogram, minus
from ext_proc.contract.cache import CacheStatistics

RATE_STEPS: Final = 3
TIME_STEPS: Final = 12
"""Sidecars tell every five seconds: rates over three steps do not jump."""
HALF_S: Final = 60.0
MAX_LINES: Final = 2_000
"""Versions, and Tiers, that are told apart; the rest is only in the totals."""
_MICROS: Final = 1e-6

# Places in the rings.
_CALLS, _FAILED, _THROTTLED, _REFUSED, _ABANDONED, _INPUT, _OUTPUT = range(7)
_HITS, _MISSES, _SAVED_MICROS, _SAVED_TOKENS = range(7, 11)
_VERSION_WIDTH, _TOTAL_WIDTH = 7, 11
_TIER_WIDTH: Final = 4
_ZEROS: Final = (0,) * _VERSION_WIDTH

T = TypeVar("T", VersionStatistics, TierStatistics)


class _Line:
    """One version."""

    __slots__ = ("duration", "first_byte", "ring")

    def __init__(self, step: int, now_s: float) -> None:
        self.ring = Ring(_VERSION_WIDTH, step)
        self.duration = Recent(HALF_S, now_s)
        self.first_byte = Recent(HALF_S, now_s)


class Traffic:
    """The last fifteen minutes of the mesh. Belongs to one event loop; `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        step = self._step()
        self._total = Ring(_TOTAL_WIDTH, step)
        self._lines: dict[tuple[str, str], _Line] = {}
        self._tiers: dict[str, Ring] = {}
        # Histograms of the last minute's steps, and what those of each step before came to.
        self._times: deque[tuple[dict[int, int], dict[int, int]]] = deque([({}, {})], maxlen=TIME_STEPS)
        self._quantiles: deque[tuple[float | None, ...]] = deque(maxlen=STEPS)
        self._at = self._began = step

    def __repr__(self) -> str:
        return f"<Traffic {len(self._lines)} versions, {len(self._tiers)} tiers>"

    def told(self, before: Told, after: Told) -> None:
        """Count what came between two reports of one sidecar."""
        self._go_on()
        if after.versions is not before.versions or after.tiers is not before.tiers:
            self._take_versions(before, after)
        if after.cache is not before.cache:
            self._take_cache(before.cache, after.cache)

    def flow(self, *, whole: bool) -> Flow:
        """Return how it goes; `whole`: with every step of the last fifteen minutes."""
        self._go_on()
        now_s, last = self._clock(), self._at - 1
        sums = self._total.sums(self._at)
        durations, first_bytes = _joined(self._times)
        return Flow(
            whole=whole,
            rates=_rates(self._total.total(last, RATE_STEPS)),
            sums=Sums(
                requests=sums[_CALLS] + sums[_HITS],
                calls=sums[_CALLS],
                failed=sums[_FAILED],
                hits=sums[_HITS],
                misses=sums[_MISSES],
                tokens=sums[_INPUT] + sums[_OUTPUT],
                saved_cost=sums[_SAVED_MICROS] * _MICROS,
                saved_tokens=sums[_SAVED_TOKENS],
            ),
            latency=_times(durations),
            ttft=_times(first_bytes),
            series=self._series(last, STEPS if whole else RATE_STEPS),
            models=[_version_row(key, line, self._at, now_s) for key, line in sorted(self._lines.items())],
            tiers=[_tier_row(tier, ring, self._at) for tier, ring in sorted(self._tiers.items())],
        )

    def _step(self) -> int:
        return int(self._clock() / STEP_S)

    def _go_on(self) -> None:
        """Close the steps that are over, and forget what nothing was counted of for as long as is kept."""
        step = self._step()
        if step == self._at:
            return
        for _ in range(min(step - self._at, STEPS)):
            durations, first_bytes = _joined(list(self._times)[-RATE_STEPS:])
            self._quantiles.append((*_both(durations), *_both(first_bytes)))
            self._times.append(({}, {}))
        self._at = step
        for key, line in list(self._lines.items()):
            line.ring.sums(step)
            if line.ring.empty:
                del self._lines[key]
        for tier, ring in list(self._tiers.items()):
            ring.sums(step)
            if ring.empty:
                del self._tiers[tier]

    def _take_versions(self, before: Told, after: Told) -> None:
        if not before.epoch:
            # Counted before anybody listened here: where it begins, not what came.
            return
        began_anew = before.epoch != after.epoch
        for earlier, later in told_pairs(before.versions, after.versions, anew=began_anew):
            if earlier is None or earlier.calls != later.calls:
                self._take_version(earlier or VersionStatistics(later.model, later.version), later)
        for was, now in told_pairs(before.tiers, after.tiers, anew=began_anew):
            if was is None or was.requests != now.requests:
                self._take_tier(was or TierStatistics(now.tier), now)

    def _take_version(self, earlier: VersionStatistics, later: VersionStatistics) -> None:
        now_s = self._clock()
        counts = [
            max(now - then, 0)
            for now, then in zip(version_numbers(later), version_numbers(earlier), strict=True)
        ]
        self._total.add(self._at, counts)
        duration = minus(later.duration, earlier.duration)
        first_byte = minus(later.first_byte, earlier.first_byte)
        for total, more in zip(self._times[-1], (duration, first_byte), strict=True):
            count_into(total, more)
        key = _key(later)
        line = self._lines.get(key)
        if line is None:
            if len(self._lines) >= MAX_LINES:
                return
            line = self._lines[key] = _Line(self._at, now_s)
        line.ring.add(self._at, counts)
        line.duration.add(duration, now_s)
        line.first_byte.add(first_byte, now_s)

    def _take_tier(self, earlier: TierStatistics, later: TierStatistics) -> None:
        ring = self._tiers.get(later.tier)
        if ring is None:
            if len(self._tiers) >= MAX_LINES:
                return
            ring = self._tiers[later.tier] = Ring(_TIER_WIDTH, self._at)
        now, then = tier_numbers(later), tier_numbers(earlier)
        ring.add(self._at, [max(one - other, 0) for one, other in zip(now, then, strict=True)])

    def _take_cache(self, before: CacheStatistics, after: CacheStatistics) -> None:
        if before == CacheStatistics():
            return
        now, then = cache_numbers(after), cache_numbers(before)
        if any(one < other for one, other in zip(now, then, strict=True)):
            then = (0,) * len(now)  # counting began anew
        self._total.add(self._at, [*_ZEROS, *(one - other for one, other in zip(now, then, strict=True))])

    def _series(self, last: int, steps: int) -> Series:
        rates = [
            _rates(self._total.total(step, RATE_STEPS)) if step >= self._began else None
            for step in range(last - steps + 1, last + 1)
        ]
        kept = list(self._quantiles)[-steps:]
        quantiles = [(None, None, None, None)] * (steps - len(kept)) + kept
        latency_p50, latency_p95, ttft_p50, ttft_p95 = (
            [item[place] for item in quantiles] for place in range(4)
        )
        return Series(
            end=last,
            step_seconds=STEP_S,
            requests=_line(rates, lambda rate: rate.requests),
            failed=_line(rates, lambda rate: rate.failed),
            throttled=_line(rates, lambda rate: rate.throttled),
            hits=_line(rates, lambda rate: rate.hits),
            misses=_line(rates, lambda rate: rate.misses),
            saved_cost=_line(rates, lambda rate: rate.saved_cost),
            output_tokens=_line(rates, lambda rate: rate.output_tokens),
            latency_p50=latency_p50,
            latency_p95=latency_p95,
            ttft_p50=ttft_p50,
            ttft_p95=ttft_p95,
        )


def _key(told: VersionStatistics | TierStatistics) -> tuple[str, str]:
    return (told.model, told.version) if isinstance(told, VersionStatistics) else (told.tier, "")


def told_pairs(before: Sequence[T], after: Sequence[T], *, anew: bool) -> Iterable[tuple[T | None, T]]:
    """Yield each of `after` with what was told of the same before, None when nothing was."""
    if anew:
        return ((None, item) for item in after)
    if len(before) == len(after) and all(
        _key(one) == _key(other) for one, other in zip(before, after, strict=True)
    ):
        return zip(before, after, strict=True)
    known: Mapping[tuple[str, str], T] = {_key(item): item for item in before}
    return ((known.get(_key(item)), item) for item in after)


def version_numbers(told: VersionStatistics) -> tuple[int, ...]:
    """Return what is counted of a version, in the order of its fields."""
    return (
        told.calls,
        told.errors,
        told.throttled,
        told.refused,
        told.abandoned,
        told.input_tokens,
        told.output_tokens,
    )


def tier_numbers(told: TierStatistics) -> tuple[int, ...]:
    """Return what is counted of a Tier, in the order of its fields."""
    return (told.requests, told.limited, told.errors, told.tokens)


def cache_numbers(told: CacheStatistics) -> tuple[int, ...]:
    """Return hits, misses, and what they saved: millionths of money, and tokens."""
    saved = told.saved_prompt_tokens + told.saved_completion_tokens
    return (told.hits, told.misses, told.saved_cost_micros, saved)


def _joined(steps: Iterable[Sequence[Histogram]]) -> tuple[Histogram, Histogram]:
    durations: dict[int, int] = {}
    first_bytes: dict[int, int] = {}
    for duration, first_byte in steps:
        count_into(durations, duration)
        count_into(first_bytes, first_byte)
    return durations, first_bytes


def _line(rates: Iterable[Rates | None], read: Callable[[Rates], float]) -> list[float | None]:
    return [None if rate is None else read(rate) for rate in rates]


def _both(histogram: Histogram) -> list[float | None]:
    return quantiles(histogram, (0.5, 0.95))


def _times(histogram: Histogram) -> Times:
    return Times(*_both(histogram))


def _rates(sums: Sequence[int]) -> Rates:
    seconds = RATE_STEPS * STEP_S
    return Rates(
        requests=(sums[_CALLS] + sums[_HITS]) / seconds,
        calls=sums[_CALLS] / seconds,
        hits=sums[_HITS] / seconds,
        misses=sums[_MISSES] / seconds,
        failed=sums[_FAILED] / seconds,
        throttled=sums[_THROTTLED] / seconds,
        refused=sums[_REFUSED] / seconds,
        abandoned=sums[_ABANDONED] / seconds,
        input_tokens=sums[_INPUT] / seconds,
        output_tokens=sums[_OUTPUT] / seconds,
        saved_cost=sums[_SAVED_MICROS] * _MICROS / seconds,
        saved_tokens=sums[_SAVED_TOKENS] / seconds,
    )


def _version_row(key: tuple[str, str], line: _Line, step: int, now_s: float) -> VersionRow:
    seconds = RATE_STEPS * STEP_S
    sums = line.ring.total(step - 1, RATE_STEPS)
    recent = line.ring.sums(step)
    wrong = recent[_FAILED] + recent[_THROTTLED] + recent[_REFUSED]
    return VersionRow(
        model=key[0],
        version=key[1],
        calls=sums[_CALLS] / seconds,
        failed=sums[_FAILED] / seconds,
        throttled=sums[_THROTTLED] / seconds,
        refused=sums[_REFUSED] / seconds,
        errors=wrong / recent[_CALLS] if recent[_CALLS] else None,
        latency=_times(line.duration.read(now_s)),
        ttft=_times(line.first_byte.read(now_s)),
        input_tokens=sums[_INPUT] / seconds,
        output_tokens=sums[_OUTPUT] / seconds,
        recent_calls=recent[_CALLS],
    )


def _tier_row(tier: str, ring: Ring, step: int) -> TierRow:
    seconds = RATE_STEPS * STEP_S
    requests, limited, failed, tokens = ring.total(step - 1, RATE_STEPS)
    return TierRow(
        tier,
        requests / seconds,
        limited / seconds,
        failed / seconds,
        tokens / seconds,
        ring.sums(step)[0],
    )
