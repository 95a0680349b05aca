"""The clock of the Releases: what sidecars counted since the last look, handed to the registry every second.

Every replica runs one, for its own sidecars. What a sidecar counts grows from the start of its epoch; of one
that was not known yet the first report is where counting begins, as another replica may have had it before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from control_plane.releases.counts import NEITHER, NOT_COMPARED, NOTHING, Both, Compared, Counts

EVERY_S: Final = 1.0


class Counted(Protocol):
    """What a sidecar counted of one version of a Release."""

    @property
    def release(self) -> str:
        """The Release."""

    @property
    def version(self) -> str:
        """The version that it chose."""

    @property
    def counts(self) -> Counts:
        """What came of it, since the epoch began."""


class Reporter(Protocol):
    """One sidecar. Its `epoch` is "" until it has told something."""

    @property
    def sidecar(self) -> str:
        """Its name."""

    @property
    def epoch(self) -> str:
        """Another one: counting began anew."""

    @property
    def counts(self) -> Sequence[Counted]:
        """What it counted."""

    @property
    def compared(self) -> Mapping[str, Compared]:
        """What it found out of versions itself, by Release."""


class Sidecars(Protocol):
    """The sidecars that this replica knows."""

    def released(self) -> Sequence[Reporter]:
        """Return what each of this replica's own counted."""

    def obeyed(self) -> bool:
        """Return whether every one that is connected to any replica holds what is in force."""


class Book(Protocol):
    """Where Releases are kept."""

    async def look_at_releases(
        self, intervals: Mapping[str, Both], *, obeyed: bool, compared: Mapping[str, Compared]
    ) -> None:
        """Take in what the versions of each Release did, and how they compare, and let each move."""


class Log(Protocol):
    """Where trouble is told."""

    def warning(self, event: str, **fields: object) -> object:
        """Warn."""


class Tellings:
    """What was counted already, so that the rest is news."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], dict[tuple[str, str], Counts]] = {}

    def news(self, reporters: Iterable[Reporter], versions: Mapping[str, tuple[str, str]]) -> dict[str, Both]:
        """Return what came since the last call, by Release; `versions` has each one's old and new version."""
        found: dict[str, Both] = {}
        known: dict[tuple[str, str], dict[tuple[str, str], Counts]] = {}
        for reporter in reporters:
            if not reporter.epoch:
                continue
            who = reporter.sidecar, reporter.epoch
            before = self._known.get(who)
            now = known[who] = {(item.release, item.version): item.counts for item in reporter.counts}
            if before is None:
                continue
            for (release, version), counts in now.items():
                more = counts.since(before.get((release, version), NOTHING))
                old, new = versions.get(release, ("", ""))
                if not more.calls or version not in (old, new):
                    continue
                both = Both(new=more) if version == new else Both(old=more)
                found[release] = found.get(release, NEITHER) + both
        self._known = known
        return found


class Findings:
    """What was found out of versions already, so that the rest is news; see `Tellings`."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Mapping[str, Compared]] = {}

    def news(self, reporters: Iterable[Reporter]) -> dict[str, Compared]:
        """Return what came since the last call, by Release."""
        found: dict[str, Compared] = {}
        known: dict[tuple[str, str], Mapping[str, Compared]] = {}
        for reporter in reporters:
            if not reporter.epoch:
                continue
            who = reporter.sidecar, reporter.epoch
            before, known[who] = self._known.get(who), reporter.compared
            if before is None or before is reporter.compared:
                continue
            for release, compared in reporter.compared.items():
                more = compared.since(before.get(release, NOT_COMPARED))
                if more:
                    found[release] = found.get(release, NOT_COMPARED) + more
        self._known = known
        return found


class Runner:
    """Looks at the Releases until it is stopped. `versions` returns the old and the new one of each."""

    def __init__(
        self,
        book: Book,
        sidecars: Sidecars,
        versions: Callable[[], Mapping[str, tuple[str, str]]],
        log: Log,
        every_s: float = EVERY_S,
    ) -> None:
        self._book = book
        self._sidecars = sidecars
        self._versions = versions
        self._log = log
        self._every_s = every_s
        self._tellings = Tellings()
        self._findings = Findings()
        self._kept: dict[str, Both] = {}
        self._compared: dict[str, Compared] = {}
        self._failing = False

    async def run(self) -> None:
        """Look every second until cancelled. What could not be handed on is handed on with the next."""
        while True:
            await asyncio.sleep(self._every_s)
            await self.look()

    async def look(self) -> None:
        """Look once. Trouble is told when it begins, and never ends the runner."""
        try:
            versions = self._versions()
            reporters = self._sidecars.released()
            for release, both in self._tellings.news(reporters, versions).items():
                self._kept[release] = self._kept.get(release, NEITHER) + both
            for release, compared in self._findings.news(reporters).items():
                self._compared[release] = self._compared.get(release, NOT_COMPARED) + compared
            obeyed = bool(versions) and self._sidecars.obeyed()
            await self._book.look_at_releases(self._kept, obeyed=obeyed, compared=self._compared)
        except Exception as error:
            # The database is away, most likely; a Release that nobody watches would be worse than a late one.
            if not self._failing:
                self._log.warning("the releases are not looked at", error=str(error))
            self._failing = True
            return
        self._kept, self._compared, self._failing = {}, {}, False
