"""What became of the questions that two versions were compared on: plain numbers that grow."""

from __future__ import annotations

from collections.abc import Container, Mapping
from enum import StrEnum

from ext_proc.contract.comparisons import Comparison


class Mirrored(StrEnum):
    """What became of a call that was to be asked of a new version as well. A closed set."""

    ANSWERED = "answered"
    FAILED = "failed"  # the new version gave no answer
    DROPPED_CAP = "dropped-cap"  # so many are being asked already
    DROPPED_COOLING = "dropped-cooling"  # its Backend is to be left alone, or has no place
    DROPPED_LARGE = "dropped-large"  # more than is held for nobody
    DROPPED_REFUSED = "dropped-refused"  # the version's own policy forbids it
    DROPPED_ENDED = "dropped-ended"  # the Release has moved on meanwhile
    DROPPED_UNREAD = "dropped-unread"  # what the old version answered was not seen whole
    UNSENT = "unsent"  # our own failure: nobody was asked


class ReleaseTally:
    """Grows from the start of the process; comparisons are forgotten with their Release."""

    def __init__(self) -> None:
        self.mirrored = dict.fromkeys(Mirrored, 0)
        self.cache_compared = 0
        self.cache_disagreed = 0
        self._comparisons: dict[str, Comparison] = {}

    @property
    def comparisons(self) -> Mapping[str, Comparison]:
        """What is known by Release; another object whenever that has changed."""
        return self._comparisons

    def count(self, outcome: Mirrored) -> None:
        """Count what became of a call."""
        self.mirrored[outcome] += 1

    def add(self, release: str, comparison: Comparison) -> None:
        """Take in what was found out of a Release's versions."""
        self.cache_compared += comparison.likeness.cache_compared
        self.cache_disagreed += comparison.likeness.cache_disagreed
        before = self._comparisons.get(release, Comparison())
        self._comparisons = {**self._comparisons, release: before + comparison}

    def keep(self, releases: Container[str]) -> None:
        """Forget every Release that is not in `releases`."""
        if any(name not in releases for name in self._comparisons):
            self._comparisons = {
                name: comparison for name, comparison in self._comparisons.items() if name in releases
            }
