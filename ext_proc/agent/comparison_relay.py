"""What this sidecar's processors compare of Releases' versions, as one.

A processor that died takes nothing back: what it had found out stays counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ext_proc.contract import push_pb2
from ext_proc.contract.comparisons import Comparison, merged_comparisons
from ext_proc.contract.comparisons_wire import comparisons_of

KEPT_APART: Final = 16
"""Of so many processors long gone it is remembered who told what, should one of them connect again."""


class ComparisonRelay:
    """Adds up what processors tell. `tell` is given the sum, by Release, whenever it may have changed."""

    def __init__(self, tell: Callable[[Mapping[str, Comparison]], None]) -> None:
        self._tell = tell
        # By processor's epoch; one that connects again goes on counting where it was.
        self._told: dict[str, Mapping[str, Comparison]] = {}
        self._epochs: dict[int, str] = {}
        self._past: Mapping[str, Comparison] = {}

    def counted(self, stream: int, comparisons: push_pb2.Comparisons) -> None:
        """Take what a processor found out since its epoch began."""
        epoch = comparisons.epoch or f"stream {stream}"
        self._epochs[stream] = epoch
        self._told[epoch] = comparisons_of(comparisons.releases)
        self._tell(merged_comparisons([self._past, *self._told.values()]))

    def gone(self, stream: int) -> None:
        """Learn that a processor will say no more on this stream."""
        self._epochs.pop(stream, None)
        gone = [epoch for epoch in self._told if epoch not in self._epochs.values()]
        for epoch in gone[:-KEPT_APART]:
            self._past = merged_comparisons([self._past, self._told.pop(epoch)])
