"""The revisions that are on their way or could be fallen back to, the newest last (no decision, no stream).

Usually there are two: the one in force and the one before. More while sidecars leave revisions unanswered:
one that nobody has accepted yet is no safe ground.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Final

from control_plane.push.parcels import Parcel, Parcels
from control_plane.push.rollout import Phase, Rollout

MAX_EDITIONS: Final = 8


@dataclass(frozen=True, slots=True)
class Edition:
    """One revision: what it brings, and how far it has come. `published_s` is on the fleet's clock."""

    parcels: Parcels
    rollout: Rollout
    published_s: float

    @property
    def revision(self) -> int:
        """Which one it is."""
        return self.parcels.revision


class Editions:
    """The editions of a fleet."""

    def __init__(self) -> None:
        self._editions: list[Edition] = []

    def __repr__(self) -> str:
        return f"<Editions {[edition.rollout for edition in self._editions]}>"

    @property
    def newest(self) -> Edition | None:
        """The one published last, halted or not."""
        return self._editions[-1] if self._editions else None

    def add(self, edition: Edition, now_s: float) -> None:
        """Let `edition` be the newest. What lies before safe ground is forgotten."""
        kept = [item for item in self._editions if item.rollout.phase is not Phase.HALTED]
        for index in range(len(kept) - 1, 0, -1):
            if kept[index].rollout.is_settled(now_s):
                del kept[:index]
                break
        if len(kept) >= MAX_EDITIONS:
            del kept[1]  # the first is the one that was settled
        self._editions = [*kept, edition]

    def go_back(self, revision: int) -> bool:
        """Forget what came after `revision`; return whether that one is still here."""
        while self._editions and self._editions[-1].revision > revision:
            self._editions.pop()
        return bool(self._editions) and self._editions[-1].revision == revision

    def offered(self, sidecar: str, workload: str, refused: Container[str]) -> Parcel | None:
        """Return what `sidecar` is to hold now: the newest that reaches it and is not `refused`."""
        for edition in reversed(self._editions):
            if edition.rollout.reaches(sidecar):
                parcel = edition.parcels.of(workload)
                if parcel.content not in refused:
                    return parcel
        return None

    def hoped_for(self, workload: str) -> Parcel | None:
        """Return what all sidecars of `workload` will hold if nothing more is refused."""
        for edition in reversed(self._editions):
            if edition.rollout.phase is not Phase.HALTED:
                return edition.parcels.of(workload)
        return None

    def with_content(self, content: str, workload: str | None = None) -> Iterator[Edition]:
        """Yield the editions that bring `content`, as far as they were asked for, the newest first.

        With `workload`, whatever they bring to that one is found out for this.
        """
        for edition in reversed(self._editions):
            if workload is not None:
                edition.parcels.of(workload)
            if edition.parcels.brings(content):
                yield edition
