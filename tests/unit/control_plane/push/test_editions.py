"""What is on its way, and what could be fallen back to."""

from __future__ import annotations

import pytest

from control_plane.push.editions import MAX_EDITIONS, Edition, Editions
from control_plane.push.parcels import Parcels
from control_plane.push.rollout import JUDGED_S, Rollout
from tests.unit.control_plane.push.scenes import policy


def edition(revision: int, *, wave: str = "", served: bool = True) -> Edition:
    """Return an edition whose content is its number; with `served` a sidecar has accepted it."""
    parcels = Parcels(policy(revision, str(revision)), b"")
    content = parcels.of("w").content
    rollout = Rollout(revision, set(wave), 0.0, [content])
    if served:
        rollout.accepted("a", content, 0.0)
    return Edition(parcels, rollout, 0.0)


def revisions(editions: Editions) -> list[int]:
    """Return what is still there, the newest first."""
    found = []
    refused: set[str] = set()
    while (parcel := editions.offered("a", "w", refused)) is not None:
        found.append(parcel.revision)
        refused.add(parcel.content)
    return found


@pytest.fixture
def editions() -> Editions:
    """Return no editions."""
    return Editions()


def test_before_the_first_there_is_nothing(editions: Editions) -> None:
    """Nobody is to hold anything."""
    assert editions.newest is None
    assert editions.offered("a", "w", ()) is None
    assert editions.hoped_for("w") is None


def test_safe_ground_is_kept_and_what_lies_before_is_not(editions: Editions) -> None:
    """An edition that somebody serves makes the older ones needless."""
    for revision in (1, 2, 3):
        editions.add(edition(revision), 0.0)
    assert revisions(editions) == [3, 2]


def test_what_nobody_has_accepted_is_no_safe_ground(editions: Editions) -> None:
    """Until the time of judgement is over."""
    editions.add(edition(1), 0.0)
    for revision in (2, 3):
        editions.add(edition(revision, served=False), 0.0)
    assert revisions(editions) == [3, 2, 1]
    editions.add(edition(4), JUDGED_S)
    assert revisions(editions) == [4, 3]


def test_a_halted_edition_is_passed_over_and_forgotten(editions: Editions) -> None:
    """The one before it is to be held."""
    editions.add(edition(1), 0.0)
    bad = edition(2)
    editions.add(bad, 0.0)
    bad.rollout.halt("no")
    hoped = editions.hoped_for("w")
    assert hoped is not None
    assert hoped.revision == 1
    assert editions.newest is bad
    editions.add(edition(3), 0.0)
    assert revisions(editions) == [3, 1]


def test_outside_the_wave_the_one_before_is_to_be_held(editions: Editions) -> None:
    """Hoped for is the newest all the same."""
    editions.add(edition(1), 0.0)
    editions.add(edition(2, wave="b", served=False), 0.0)
    held = {name: editions.offered(name, "w", ()) for name in "ab"}
    assert {name: parcel.revision for name, parcel in held.items() if parcel} == {"a": 1, "b": 2}
    hoped = editions.hoped_for("w")
    assert hoped is not None
    assert hoped.revision == 2


def test_a_way_back_forgets_what_came_after(editions: Editions) -> None:
    """It says whether the revision is still there."""
    for revision in (1, 2):
        editions.add(edition(revision), 0.0)
    assert editions.go_back(1)
    assert revisions(editions) == [1]
    assert not editions.go_back(0)
    assert editions.newest is None


def test_however_many_go_unanswered_memory_is_bounded(editions: Editions) -> None:
    """The newest and the one that was settled stay."""
    editions.add(edition(1), 0.0)
    for revision in range(2, 50):
        editions.add(edition(revision, served=False), 0.0)
    found = revisions(editions)
    assert len(found) <= MAX_EDITIONS
    assert (found[0], found[-1]) == (49, 1)


def test_editions_are_found_by_what_they_bring(editions: Editions) -> None:
    """Only as far as workloads were asked for: nothing is compiled for this."""
    first = edition(1)
    editions.add(first, 0.0)
    assert list(editions.with_content(first.parcels.of("w").content)) == [first]
    assert list(editions.with_content("unknown")) == []


def test_a_content_is_looked_for_in_a_workload_that_was_not_there(editions: Editions) -> None:
    """An edition may bring it to sidecars that were not connected then."""
    parcels = Parcels(policy(1, "one", of={"shop": "two"}), b"")
    unasked = Edition(parcels, Rollout(1, (), 0.0), 0.0)
    editions.add(unasked, 0.0)
    content = Parcels(policy(2, "two"), b"").of("w").content
    assert list(editions.with_content(content)) == []
    assert list(editions.with_content(content, "shop")) == [unasked]
