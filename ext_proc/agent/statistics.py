"""How each version of each Model does, for the control plane: counted from the finished requests.

Counts grow from the start of the process (the epoch) on, so that a report that is lost loses nothing. Only
versions that the policy in force names are counted, and only calls that went to a provider. Calls whose
version a Release chose are counted once more for it, so that like is compared with like. Tiers are counted
with every request, whoever answered it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from ext_proc.contract import push_pb2
from ext_proc.contract.buckets import bucket
from ext_proc.contract.comparisons import Comparison
from ext_proc.contract.comparisons_wire import comparison_messages
from ext_proc.contract.snapshot import Snapshot
from ext_proc.telemetry.record import RequestRecord

_CALLER_LEFT: Final = "downstream"


class _Counted:
    """One version's counts."""

    __slots__ = ("duration", "first_byte", "numbers", "output")

    def __init__(self) -> None:
        self.numbers: Counter[str] = Counter()
        self.duration: Counter[int] = Counter()
        self.first_byte: Counter[int] = Counter()
        self.output: Counter[int] = Counter()

    def add(self, record: RequestRecord, *, answered: bool = True) -> None:
        """Count one request; `answered`: by the version that was chosen."""
        numbers = self.numbers
        numbers["calls"] += 1
        if record.aborted and record.failure.startswith(_CALLER_LEFT):
            numbers["abandoned"] += 1
        elif record.aborted or record.status >= 500 or record.status == 0 or not answered:
            numbers["errors"] += 1
        elif record.status == 429:
            numbers["throttled"] += 1
        elif record.status >= 400:
            numbers["refused"] += 1
        else:
            self.duration[bucket(record.duration_s)] += 1
            if record.stream and record.first_byte_s is not None:
                self.first_byte[bucket(record.first_byte_s)] += 1
            if record.output_tokens is not None:
                self.output[bucket(record.output_tokens / 1000)] += 1
        if answered:
            numbers["filtered"] += record.filtered
            numbers["input_tokens"] += record.input_tokens or 0
            numbers["output_tokens"] += record.output_tokens or 0

    def told(self, model: str, version: str, release: str = "") -> push_pb2.VersionStatistics:
        """Return the message that tells it; the length of answers is told of Releases only."""
        numbers = self.numbers
        return push_pb2.VersionStatistics(
            model=model,
            version=version,
            calls=numbers["calls"],
            errors=numbers["errors"],
            throttled=numbers["throttled"],
            refused=numbers["refused"],
            abandoned=numbers["abandoned"],
            input_tokens=numbers["input_tokens"],
            output_tokens=numbers["output_tokens"],
            duration=self.duration,
            first_byte=self.first_byte,
            release=release,
            output=self.output if release else None,
            filtered=numbers["filtered"],
        )


def _of(counted: dict[tuple[str, str], _Counted], key: tuple[str, str]) -> _Counted:
    # Not by `setdefault`: what it is offered costs more than all the counting.
    found = counted.get(key)
    if found is None:
        found = counted[key] = _Counted()
    return found


def _told_tier(tier: str, numbers: Counter[str]) -> push_pb2.TierStatistics:
    return push_pb2.TierStatistics(
        tier=tier,
        requests=numbers["requests"],
        limited=numbers["limited"],
        errors=numbers["errors"],
        tokens=numbers["tokens"],
    )


class VersionCounts:
    """Counts requests by Model and version, and by Tier.

    Args:
        epoch: unique to this process.
    """

    def __init__(self, epoch: str) -> None:
        self._epoch = epoch
        self._counted: dict[tuple[str, str], _Counted] = {}
        self._known: frozenset[tuple[str, str]] = frozenset()
        # By Release and version; and the Model of each Release that is known.
        self._released: dict[tuple[str, str], _Counted] = {}
        self._models: dict[str, str] = {}
        self._tiers: dict[str, Counter[str]] = {}
        self._known_tiers: frozenset[str] = frozenset()
        self._comparisons: Mapping[str, Comparison] = {}
        self._changed = False

    @property
    def urgent(self) -> bool:
        """Whether a Release waits for these numbers."""
        return bool(self._models)

    def use(self, snapshot: Snapshot) -> None:
        """Count the versions of this policy from now on; those of others are forgotten."""
        self._known = frozenset(
            (model.name, version.name) for model in snapshot.models.values() for version in model.versions
        )
        self._counted = {key: counted for key, counted in self._counted.items() if key in self._known}
        self._models = {
            release.name: model.name for model in snapshot.models.values() for release in model.releases
        }
        self._released = {key: counted for key, counted in self._released.items() if key[0] in self._models}
        self._known_tiers = frozenset({"", *snapshot.tiers})
        self._tiers = {tier: counted for tier, counted in self._tiers.items() if tier in self._known_tiers}
        self._changed = True

    def record(self, record: RequestRecord) -> None:
        """Count one request."""
        self._record_tier(record)
        if not record.attempts:
            return
        model = self._models.get(record.release)
        if model is not None and (model, record.assigned) in self._known:
            self._changed = True
            chosen = _of(self._released, (record.release, record.assigned))
            chosen.add(record, answered=(record.model, record.version) == (model, record.assigned))
        key = (record.model, record.version)
        if key not in self._known:
            return
        self._changed = True
        _of(self._counted, key).add(record)

    def compared(self, comparisons: Mapping[str, Comparison]) -> None:
        """Take in all that processors have compared, by Release."""
        self._comparisons, self._changed = comparisons, True

    def report(self) -> push_pb2.Statistics:
        """Return all counts."""
        return push_pb2.Statistics(
            epoch=self._epoch,
            versions=self._versions(),
            releases=self._releases(),
            tiers=(_told_tier(tier, counted) for tier, counted in sorted(self._tiers.items())),
            comparisons=comparison_messages(
                {name: one for name, one in self._comparisons.items() if name in self._models}
            ),
        )

    def news(self) -> push_pb2.Statistics | None:
        """Return all counts when one has changed since this was asked last."""
        changed, self._changed = self._changed, False
        return self.report() if changed else None

    def _record_tier(self, record: RequestRecord) -> None:
        if not record.operation or record.tier not in self._known_tiers:
            return
        self._changed = True
        numbers = self._tiers.get(record.tier)
        if numbers is None:
            numbers = self._tiers[record.tier] = Counter()
        numbers["requests"] += 1
        if record.aborted and record.failure.startswith(_CALLER_LEFT):
            pass
        elif record.aborted or record.status >= 500 or record.status == 0:
            numbers["errors"] += 1
        elif record.status == 429 and not record.attempts:
            numbers["limited"] += 1
        if record.attempts:
            numbers["tokens"] += (record.input_tokens or 0) + (record.output_tokens or 0)

    def _versions(self) -> Iterator[push_pb2.VersionStatistics]:
        for (model, version), counted in sorted(self._counted.items()):
            yield counted.told(model, version)

    def _releases(self) -> Iterator[push_pb2.VersionStatistics]:
        for (release, version), counted in sorted(self._released.items()):
            yield counted.told(self._models[release], version, release)
