"""Releases: begun with their document, moved by people and by numbers, over every kind of database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from control_plane.registry.errors import NotFoundError, ReleaseConflictError, StoreUnavailableError
from control_plane.registry.registry import Registry
from control_plane.registry.releases import progress_of, wanted_queries
from control_plane.releases.analysis import Outcome
from control_plane.releases.counts import Both, Compared, Counts
from control_plane.releases.machine import Action, Phase, Standing
from control_plane.releases.queries import IN_A_ROW, Answer
from control_plane.store.opening import store_for
from ext_proc.contract.comparisons import Likeness
from tests.harness.registries import ACTOR, FlakyStore, SetClock, backend, new_registry, raw

VERSIONS = [{"name": "old", "backend": "b"}, {"name": "new", "backend": "b", "weight": 0}]
SPEC = {
    "model": "m",
    "from": "old",
    "to": "new",
    "steps": [5, 50],
    "bake": "60s",
    "gates": {"minRequests": 20},
}
GOOD = Both(Counts(95, duration={70: 95}), Counts(25, duration={70: 25}))
BAD = Both(Counts(95, duration={70: 95}), Counts(25, 20, duration={70: 5}))


@pytest.fixture
async def registry(registry: Registry) -> Registry:
    """A registry with the Release `r` of the Model `m`, just applied."""
    model = raw("Model", "m", versions=VERSIONS)
    await registry.apply([backend(), model, raw("Release", "r", **SPEC)], ACTOR)
    return registry


def standing(registry: Registry) -> Standing:
    """Return how far `r` is."""
    return registry.head.releases["r"]


async def look(registry: Registry, both: Both | None = None, *, obeyed: bool = True) -> Standing:
    """Take in what came, and return how far `r` is then."""
    await registry.look_at_releases({"r": both} if both else {}, obeyed=obeyed)
    return standing(registry)


async def test_applied_it_is_at_its_first_step(registry: Registry) -> None:
    """At once and everywhere; applied unchanged it goes on, changed it begins anew."""
    first = standing(registry)
    assert (first.phase, first.step, first.share, first.begun) == (Phase.PENDING, 1, 5, 1)
    assert registry.in_force.releases == registry.head.releases
    moved = await look(registry)
    assert moved.phase is Phase.PROGRESSING
    await registry.apply([raw("Release", "r", **SPEC)], ACTOR)
    assert standing(registry) is moved
    await registry.apply([raw("Release", "r", **{**SPEC, "steps": [10, 50]})], ACTOR)
    assert (standing(registry).phase, standing(registry).share) == (Phase.PENDING, 10)


async def test_good_numbers_lead_to_its_end(registry: Registry, clock: SetClock) -> None:
    """Step by step, each move a revision with its audit row."""
    assert (await look(registry, GOOD)).step == 1
    clock.move(seconds=61)
    assert (await look(registry)).step == 2
    assert (await registry.release_verdict("r")).counts.new.calls == 0
    clock.move(seconds=61)
    assert (await look(registry)).step == 2
    assert (await look(registry, Both(GOOD.new, GOOD.new))).phase is Phase.PROMOTING
    assert (await look(registry, obeyed=False)).phase is Phase.PROMOTING
    done = await look(registry)
    assert (done.phase, done.share) == (Phase.DONE, 100)
    row = (await registry.audit())[0]
    assert (row.action, row.target) == ("release", "Release/r")
    assert row.detail == "done, step 2, 100 %: every gate holds after 25 requests: errorRate 0 (old 0)"
    before = registry.head.revision
    await look(registry, BAD)
    assert registry.head.revision == before


async def test_a_bad_version_goes_back(registry: Registry) -> None:
    """The reason names the gate and the numbers are kept."""
    back = await look(registry, BAD)
    back = await look(registry, BAD) if back.phase is Phase.PROGRESSING else back
    assert (back.phase, back.share) == (Phase.ROLLING_BACK, 0)
    gone = await look(registry)
    assert gone.phase is Phase.ROLLED_BACK
    assert gone.reason.startswith("errorRate: 0.8 on the new version")
    judged = await registry.release_verdict("r")
    assert (judged.reason, judged.verdict.outcome) == (gone.reason, Outcome.FAIL)


async def test_queries_hold_it_back_and_send_it_back(registry: Registry, clock: SetClock) -> None:
    """An unknown answer passes no step; several bad ones in a row are a failure, said with the gate."""
    gates = {"minRequests": 20, "prometheus": [{"query": "q", "max": 0.1}]}
    await registry.apply([raw("Release", "r", **{**SPEC, "gates": gates})], ACTOR)
    assert wanted_queries(registry.head)["r"].gates[0].query == "q"
    await look(registry, GOOD)
    clock.move(seconds=61)
    assert (await look(registry)).step == 1
    judged = await registry.release_verdict("r")
    assert judged.reason == "prometheus[0]: unknown: not asked yet"
    registry.take_answers({"r": [Answer(0.05)]})
    assert (await look(registry)).step == 2
    registry.take_answers({"r": [Answer(0.5, in_a_row=IN_A_ROW)]})
    back = await look(registry)
    assert (back.phase, back.reason) == (Phase.ROLLING_BACK, "prometheus[0]: 0.5 is above 0.1")
    await look(registry)
    assert wanted_queries(registry.head) == {}


async def test_people_move_it_too(registry: Registry) -> None:
    """And are told when they cannot."""
    assert (await registry.act_on_release("r", Action.PROMOTE, ACTOR)).share == 50
    assert (await registry.act_on_release("r", Action.PAUSE, ACTOR)).phase is Phase.PAUSED
    assert (await look(registry, BAD)).phase is Phase.PAUSED
    assert (await registry.act_on_release("r", Action.ABORT, ACTOR)).share == 0
    row = (await registry.audit())[0]
    assert (row.action, row.detail) == ("abort", "aborted, step 2, 0 %: aborted by tester")
    with pytest.raises(ReleaseConflictError, match="Release/r is aborted"):
        await registry.act_on_release("r", Action.PROMOTE, ACTOR)
    with pytest.raises(NotFoundError):
        await registry.act_on_release("x", Action.PROMOTE, ACTOR)


async def test_of_two_at_once_one_wins(registry: Registry) -> None:
    """Two people who promote the same step promote it once."""
    acts = [registry.act_on_release("r", Action.PROMOTE, ACTOR) for _ in range(2)]
    found = await asyncio.gather(*acts, return_exceptions=True)
    assert sorted(type(one).__name__ for one in found) == ["ReleaseConflictError", "Standing"]
    assert standing(registry).step == 2


@pytest.mark.parametrize("action", [Action.PAUSE, Action.ABORT])
async def test_what_moves_at_the_same_moment_is_stopped_all_the_same(
    registry: Registry, action: Action
) -> None:
    """A Release that runs on by itself must not outrun whoever stops it."""
    looked, stopped = await asyncio.gather(
        registry.look_at_releases({"r": GOOD}, obeyed=True),
        registry.act_on_release("r", action, ACTOR),
        return_exceptions=True,
    )
    assert looked is None
    assert isinstance(stopped, Standing)
    assert standing(registry) == stopped


async def test_deleted_it_is_forgotten(registry: Registry) -> None:
    """Made again it begins anew, with nothing known."""
    await look(registry, GOOD)
    await registry.delete("Release", "r", ACTOR)
    assert not registry.head.releases
    with pytest.raises(NotFoundError):
        await registry.release_verdict("r")
    await registry.apply([raw("Release", "r", **SPEC)], ACTOR)
    assert (await registry.release_verdict("r")).counts.new.calls == 0


async def test_a_restart_loses_nothing(registry: Registry, replica: Callable[[], Registry]) -> None:
    """Another replica, or the next process, goes on with the same standing and the same numbers."""
    await look(registry, GOOD)
    other = replica()
    await other.open()
    assert other.head.releases == registry.head.releases
    await other.look_at_releases({"r": GOOD}, obeyed=True)
    assert (await registry.release_verdict("r")).counts == GOOD + GOOD


async def test_one_without_a_standing_begins_at_the_next_start(
    registry: Registry, replica: Callable[[], Registry]
) -> None:
    """As was stored by a build which knew none."""
    async with registry._ledger.change() as change:
        await change.tx.delete_release("r")
        change.touch("revisions")
    other = replica()
    await other.open()
    begun = standing(other)
    assert (begun.phase, begun.step, begun.begun) == (Phase.PENDING, 1, 1)
    await registry.refresh()
    assert standing(registry) == begun


async def test_without_news_nothing_is_written(registry: Registry) -> None:
    """A Release that waits costs no revision and no write."""
    await look(registry)
    revision, epochs = registry.head.revision, registry.head
    for _ in range(3):
        await look(registry)
    assert (registry.head.revision, registry.head) == (revision, epochs)


async def test_without_its_database_a_release_is_still_shown(tmp_path: Path) -> None:
    """As far as it is known, without numbers."""
    flaky = FlakyStore(store_for(None, tmp_path))
    registry = new_registry(flaky, tmp_path)
    await registry.open()
    await registry.apply(
        [backend(), raw("Model", "m", versions=VERSIONS), raw("Release", "r", **SPEC)], ACTOR
    )
    flaky.failure = StoreUnavailableError("gone")
    judged = await registry.release_verdict("r")
    assert (judged.standing.share, judged.reason, judged.verdict.readings) == (5, "applied", ())
    flaky.failure = None
    await registry.close()


SHADOWED = {**SPEC, "shadow": 0.5, "testers": {"headers": {"x-beta": "1"}}}


async def compare(registry: Registry, both: Both, served: Both | None = None) -> Standing:
    """Take in what both versions made of the same calls, beside those of callers; return how far `r` is."""
    found = Compared(both, Likeness(compared=both.new.calls, agreed=1, cache_compared=1, cache_disagreed=1))
    await registry.look_at_releases({"r": served} if served else {}, obeyed=True, compared={"r": found})
    return standing(registry)


async def test_in_the_shadow_only_what_both_were_asked_is_judged(registry: Registry, clock: SetClock) -> None:
    """Then comes the first step, where only callers count; how alike the answers were stays known."""
    await registry.apply([raw("Release", "r", **SHADOWED)], ACTOR)
    assert (standing(registry).step, standing(registry).share) == (0, 0)
    assert progress_of(registry.head)["r"].shadows
    await compare(registry, GOOD, served=BAD)
    clock.move(seconds=61)
    first = await look(registry)
    assert (first.phase, first.step, first.share) == (Phase.PROGRESSING, 1, 5)
    assert not progress_of(registry.head)["r"].shadows
    assert (await compare(registry, BAD, served=GOOD)).step == 1
    judged = await registry.release_verdict("r")
    assert (judged.counts, judged.likeness.compared, judged.likeness.cache_disagreed) == (GOOD, 50, 2)


async def test_a_bad_version_is_taken_back_before_anybody_sees_it(registry: Registry) -> None:
    """And testers have it no more."""
    await registry.apply([raw("Release", "r", **SHADOWED)], ACTOR)
    for _ in range(3):
        await compare(registry, Both(BAD.old, BAD.new), served=GOOD)
    assert standing(registry).phase in (Phase.ROLLING_BACK, Phase.ROLLED_BACK)
    assert standing(registry).reason.startswith("errorRate: ")
    assert {made.share for made in standing(registry).decisions} == {0}
    assert progress_of(registry.head)["r"].withdrawn


async def test_a_shadow_is_promoted_and_aborted_by_hand(registry: Registry) -> None:
    """As a step is; while it is paused nobody is asked."""
    await registry.apply([raw("Release", "r", **SHADOWED)], ACTOR)
    await registry.act_on_release("r", Action.PAUSE, ACTOR)
    assert not progress_of(registry.head)["r"].shadows
    assert (await registry.act_on_release("r", Action.PROMOTE, ACTOR)).step == 1
    assert (await registry.act_on_release("r", Action.ABORT, ACTOR)).phase is Phase.ABORTED
    assert progress_of(registry.head)["r"].withdrawn
