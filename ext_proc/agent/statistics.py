"""How each version of each Model does, for the control plane: counted from the finished requests.

Counts grow from the start of the process (the epoch) on, so that a report that is lost loses nothing. Only
versions that the policy in force names are counted, and only calls that went to a provider.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Final

from ext_proc.contract import push_pb2
from ext_proc.contract.snapshot import Snapshot
from ext_proc.telemetry.record import RequestRecord

BUCKET_GROWTH: Final = 1.1
"""Neighbouring buckets' bounds differ by this factor: a quantile is exact to 10 %."""
_CALLER_LEFT: Final = "downstream"


def bucket(seconds: float) -> int:
    """Return the bucket of a time: what is above 1.1^(i-1) and at most 1.1^i milliseconds is in bucket i."""
    milliseconds = max(seconds * 1000.0, 1.0)
    index = math.ceil(math.log(milliseconds, BUCKET_GROWTH))
    # The logarithm of a bound itself may come out a hair too high.
    return index - 1 if BUCKET_GROWTH ** (index - 1) >= milliseconds else index


class _Counted:
    """One version's counts."""

    __slots__ = ("duration", "first_byte", "numbers")

    def __init__(self) -> None:
        self.numbers: Counter[str] = Counter()
        self.duration: Counter[int] = Counter()
        self.first_byte: Counter[int] = Counter()


class VersionCounts:
    """Counts requests by Model and version.

    Args:
        epoch: unique to this process.
    """

    def __init__(self, epoch: str) -> None:
        self._epoch = epoch
        self._counted: dict[tuple[str, str], _Counted] = {}
        self._known: frozenset[tuple[str, str]] = frozenset()
        self._changed = False

    def use(self, snapshot: Snapshot) -> None:
        """Count the versions of this policy from now on; those of others are forgotten."""
        self._known = frozenset(
            (model.name, version.name) for model in snapshot.models.values() for version in model.versions
        )
        self._counted = {key: counted for key, counted in self._counted.items() if key in self._known}
        self._changed = True

    def record(self, record: RequestRecord) -> None:
        """Count one request."""
        key = (record.model, record.version)
        if key not in self._known or not record.attempts:
            return
        self._changed = True
        counted = self._counted.setdefault(key, _Counted())
        numbers = counted.numbers
        numbers["calls"] += 1
        numbers["input_tokens"] += record.input_tokens or 0
        numbers["output_tokens"] += record.output_tokens or 0
        if record.aborted and record.failure.startswith(_CALLER_LEFT):
            numbers["abandoned"] += 1
        elif record.aborted or record.status >= 500 or record.status == 0:
            numbers["errors"] += 1
        elif record.status == 429:
            numbers["throttled"] += 1
        elif record.status >= 400:
            numbers["refused"] += 1
        else:
            counted.duration[bucket(record.duration_s)] += 1
            if record.stream and record.first_byte_s is not None:
                counted.first_byte[bucket(record.first_byte_s)] += 1

    def report(self) -> push_pb2.Statistics:
        """Return all counts."""
        return push_pb2.Statistics(epoch=self._epoch, versions=self._versions())

    def news(self) -> push_pb2.Statistics | None:
        """Return all counts when one has changed since this was asked last."""
        changed, self._changed = self._changed, False
        return self.report() if changed else None

    def _versions(self) -> Iterator[push_pb2.VersionStatistics]:
        for (model, version), counted in sorted(self._counted.items()):
            yield push_pb2.VersionStatistics(
                model=model,
                version=version,
                duration=counted.duration,
                first_byte=counted.first_byte,
                **counted.numbers,
            )
