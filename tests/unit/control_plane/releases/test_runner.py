"""The runner: each call is told once, whatever connects, restarts or fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog
from structlog.testing import capture_logs

from control_plane.push.views import ReleaseCounts, Released
from control_plane.releases.counts import Both, Compared, Counts
from control_plane.releases.runner import Runner
from ext_proc.contract.comparisons import Likeness

VERSIONS = {"r": ("old", "new")}


def told(epoch: str, **calls: int) -> Released:
    """Return what the sidecar `s` counted of `r`, by version."""
    return Released(
        "s", epoch, tuple(ReleaseCounts("r", version, Counts(number)) for version, number in calls.items())
    )


@dataclass
class Scene:
    """Sidecars that say what they are told to, and a book that writes down or fails."""

    reports: list[Released] = field(default_factory=list)
    seen: list[Mapping[str, Both]] = field(default_factory=list)
    compared: list[Mapping[str, Compared]] = field(default_factory=list)
    failure: Exception | None = None
    fault: Exception | None = None

    def released(self) -> list[Released]:
        """Return the reports, or fail."""
        if self.fault is not None:
            raise self.fault
        return self.reports

    def obeyed(self) -> bool:
        """Return that they did."""
        return True

    async def look_at_releases(
        self, intervals: Mapping[str, Both], *, obeyed: bool, compared: Mapping[str, Compared]
    ) -> None:
        """Write it down."""
        assert obeyed
        if self.failure is not None:
            raise self.failure
        self.seen.append(dict(intervals))
        self.compared.append(dict(compared))


async def played(scene: Scene, *reports: list[Released]) -> list[Mapping[str, Both]]:
    """Return what was handed on after each of these."""
    runner = Runner(scene, scene, lambda: VERSIONS, structlog.get_logger())
    for found in reports:
        scene.reports = found
        await runner.look()
    return scene.seen


async def test_what_is_new_is_told_once() -> None:
    """From a sidecar that was there before the Release, from its first call on."""
    seen = await played(
        Scene(), [told("e")], [told("e", old=3, new=1)], [told("e", old=3, new=2)], [told("e", old=3, new=2)]
    )
    assert seen == [{}, {"r": Both(Counts(3), Counts(1))}, {"r": Both(new=Counts(1))}, {}]


async def test_counts_of_a_stranger_are_a_beginning() -> None:
    """Another replica has folded them in before; so has this one, before it was started again."""
    seen = await played(
        Scene(), [told("e", new=100)], [told("e", new=101)], [told("f", new=5)], [told("f", new=6)]
    )
    assert seen == [{}, {"r": Both(new=Counts(1))}, {}, {"r": Both(new=Counts(1))}]


async def test_who_has_told_nothing_yet_is_no_stranger_twice() -> None:
    """Without an epoch there is nothing to begin from."""
    seen = await played(Scene(), [told("")], [told("e", new=4)], [told("e", new=9)])
    assert seen == [{}, {}, {"r": Both(new=Counts(5))}]


async def test_other_versions_are_nobodys() -> None:
    """Of a Release that was deleted, or now compares others."""
    assert await played(Scene(), [told("e")], [told("e", other=4)]) == [{}, {}]


async def test_what_could_not_be_handed_on_is_kept() -> None:
    """A database that is away for a while costs no call."""
    scene = Scene()
    runner = Runner(scene, scene, lambda: VERSIONS, structlog.get_logger())
    for calls, failure in ((0, None), (2, OSError("gone")), (5, OSError("gone")), (6, None)):
        scene.reports, scene.failure = [told("e", new=calls)], failure
        await runner.look()
    assert scene.seen == [{}, {"r": Both(new=Counts(6))}]


async def test_trouble_is_told_when_it_begins_and_ends_nothing() -> None:
    """Whoever is in trouble: the book, or the fleet."""
    scene = Scene()
    runner = Runner(scene, scene, lambda: VERSIONS, structlog.get_logger())
    with capture_logs() as logs:
        for failure, fault in (
            (OSError("gone"), None),
            (None, KeyError("x")),
            (None, None),
            (OSError(), None),
        ):
            scene.failure, scene.fault = failure, fault
            await runner.look()
    assert [line["event"] for line in logs] == ["the releases are not looked at"] * 2
    assert scene.seen == [{}]


async def test_what_is_found_out_of_versions_is_told_once_too() -> None:
    """What could not be handed on comes with the next; of a stranger what it says first is a beginning."""

    def found(epoch: str, calls: int) -> Released:
        one = Compared(Both(Counts(calls), Counts(calls)), Likeness(compared=calls))
        return Released("s", epoch, (), {"r": one})

    scene = Scene()
    runner = Runner(scene, scene, lambda: VERSIONS, structlog.get_logger())
    for epoch, calls, failure in (
        ("e", 1, None),
        ("e", 3, OSError("gone")),
        ("e", 6, None),
        ("e", 6, None),
        ("f", 2, None),
        ("f", 3, None),
    ):
        scene.reports, scene.failure = [found(epoch, calls)], failure
        await runner.look()
    told = [one["r"].likeness.compared if one else 0 for one in scene.compared]
    assert told == [0, 5, 0, 0, 1]
    assert scene.compared[1]["r"].shadowed == Both(Counts(5), Counts(5))
