"""Which version answers a caller: weights, shares, and who keeps what."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.assignment import Assigned, Caller, assign, by_weight, concerns, point, sticky_key
from ext_proc.contract.snapshot import Model, Rollout, Version

TWO = Model("m", (Version("old", "b", "m-1", 95), Version("new", "b", "m-2", 5)))
THREE = Model("m", (Version("old", "b", "m-1", 60), Version("new", "b", "m-2"), Version("x", "b", "m-3", 40)))
ROLLOUT = Rollout("r", "old", "new", 0.05, "release:r")
NOBODY = Caller({})


def undrawn() -> float:
    """Fail: the caller is tied to its version."""
    raise AssertionError("drawn")


def consumer(number: int) -> Caller:
    """Return one of many callers."""
    return Caller({}, consumer=f"team-{number}")


def released(share: float, model: Model = TWO) -> Model:
    """Return `model` with a Release at `share`."""
    return replace(model, releases=(replace(ROLLOUT, share=share),))


def test_weights_are_shares() -> None:
    """5 of 100 are 5 %, whatever the weights sum to."""
    chosen = Counter(by_weight(TWO, place / 1000).name for place in range(1000))
    assert chosen == {"old": 950, "new": 50}


@given(st.floats(0, 1, exclude_max=True))
def test_a_version_of_weight_zero_is_never_chosen(place: float) -> None:
    """Not at the edges either."""
    model = Model("m", (Version("a", "b", "m", 0), Version("b", "b", "m", 1), Version("c", "b", "m", 0)))
    assert by_weight(model, place).name == "b"


def test_no_weight_at_all_is_an_error() -> None:
    """The control plane refuses such a Model."""
    with pytest.raises(ValueError, match="no version with a weight"):
        by_weight(Model("m", (Version("a", "b", "m", 0),)), 0.5)


def test_a_share_is_met_and_only_grows() -> None:
    """Of 100,000 callers each share is met within half a percent, and nobody goes back as it grows."""
    places = [point(ROLLOUT.salt, f"consumer:team-{number}") for number in range(100_000)]
    for share in (0.01, 0.05, 0.25, 0.5):
        assert sum(place < share for place in places) / len(places) == pytest.approx(share, abs=0.005)
    on_new: set[int] = set()
    for share in (0.05, 0.25, 0.5, 1.0):
        model = released(share)
        chosen = {number: assign(model, consumer(number), undrawn).version.name for number in range(500)}
        now = {number for number, name in chosen.items() if name == "new"}
        assert on_new <= now
        on_new = now
    assert len(on_new) == 500


def test_nothing_and_everything_are_exact() -> None:
    """A share of 0 is nobody, one of 1 everybody, and the draw may be what it likes."""
    for draw in (0.0, 0.5, 0.999999999):
        assert assign(released(0.0), NOBODY, lambda: draw).version.name == "old"  # noqa: B023
        assert assign(released(1.0), NOBODY, lambda: draw).version.name == "new"  # noqa: B023


def test_another_release_begins_with_others() -> None:
    """The salt is the Release's own."""
    first = {number for number in range(2000) if point("release:a", str(number)) < 0.05}
    second = {number for number in range(2000) if point("release:b", str(number)) < 0.05}
    assert len(first & second) < len(first) / 2


def test_other_versions_keep_their_proportion() -> None:
    """A version that the Release does not name has what its weight gives it: here a fifth."""
    chosen = Counter(assign(released(0.5, THREE), consumer(number), lambda: 0.0) for number in range(5000))
    names = Counter({(found.version.name, found.release): count for found, count in chosen.items()})
    assert names["x", ""] == pytest.approx(1000, abs=100)
    assert names["new", "r"] == pytest.approx(2000, abs=140)
    assert names["old", "r"] == pytest.approx(2000, abs=140)


def test_whom_it_does_not_concern_has_the_weights() -> None:
    """The other callers have the Model's own versions, and no Release is named."""
    model = replace(TWO, releases=(replace(ROLLOUT, share=1.0, tiers=("gold",)),))
    assert assign(model, NOBODY, lambda: 0.5) == Assigned(TWO.versions[0])
    assert assign(model, Caller({}, tier="gold"), lambda: 0.5) == Assigned(TWO.versions[1], "r")


def test_two_releases_share_a_model() -> None:
    """Each has its own callers, or its own versions."""
    gold = replace(ROLLOUT, share=1.0, tiers=("gold",))
    free = replace(ROLLOUT, name="s", share=0.0, tiers=("free",))
    model = replace(TWO, releases=(gold, free))
    assert assign(model, Caller({}, tier="free"), lambda: 0.99) == Assigned(TWO.versions[0], "s")
    assert assign(model, Caller({}, tier="gold"), lambda: 0.99) == Assigned(TWO.versions[1], "r")
    four = Model("m", tuple(Version(name, "b", name) for name in "abcd"))
    pairs = (Rollout("ab", "a", "b", 1.0, "ab"), Rollout("cd", "c", "d", 1.0, "cd"))
    both = replace(four, releases=pairs)
    names = {assign(both, consumer(number), undrawn).version.name for number in range(100)}
    assert names == {"b", "d"}


CONDITIONS = [
    ({}, NOBODY, True),
    ({"tiers": ("gold", "free")}, Caller({}, tier="gold"), True),
    ({"tiers": ("gold",)}, NOBODY, False),
    ({"consumers": ("a",)}, Caller({}, consumer="a"), True),
    ({"consumers": ("a",)}, Caller({}, consumer="b"), False),
    ({"user_agents": ("*Mobile*", "x")}, Caller({"user-agent": "a Mobile b"}), True),
    ({"user_agents": ("*mobile*",)}, Caller({"user-agent": "a Mobile b"}), False),
    ({"user_agents": ("x",)}, NOBODY, False),
    ({"headers": {"x-team": "a", "x-b": "1"}}, Caller({"x-team": "a", "x-b": "1"}), True),
    ({"headers": {"x-team": "a"}}, Caller({"x-team": "b"}), False),
    ({"tiers": ("gold",), "headers": {"x-team": "a"}}, Caller({}, tier="gold"), False),
]


@pytest.mark.parametrize(("conditions", "caller", "meets"), CONDITIONS)
def test_every_condition_must_be_met(conditions: dict[str, object], caller: Caller, meets: bool) -> None:
    """One of each list, all headers."""
    assert concerns(replace(ROLLOUT, **conditions), caller) is meets  # type: ignore[arg-type]


ALL = {"x-outrigger-session": "s", "x-forwarded-for": "10.0.0.1, 10.0.0.2"}
KEYS = [
    (("consumer", "session"), Caller(ALL, "a", "t"), "consumer:a"),
    (("session", "consumer"), Caller(ALL, "a", "t"), "session:t:s"),
    (("consumer", "session"), Caller(ALL, "", "t"), "session:t:s"),
    (("consumer", "ip"), Caller(ALL, "", "t"), "ip:10.0.0.1"),
    (("consumer", "session", "ip"), NOBODY, ""),
    ((), Caller(ALL, "a", "t"), ""),
]


@pytest.mark.parametrize(("kinds", "caller", "key"), KEYS)
def test_the_first_thing_that_a_caller_has_ties_it(kinds: tuple[str, ...], caller: Caller, key: str) -> None:
    """In the order asked for; with none of them nothing does."""
    assert sticky_key(caller, kinds) == key  # type: ignore[arg-type]


def test_a_caller_that_nothing_ties_is_drawn_anew() -> None:
    """By the weights, and by the share."""
    draws = iter([0.5, 0.04, 0.5, 0.06])
    model = released(0.05)
    names = [assign(model, NOBODY, lambda: next(draws)).version.name for _ in range(2)]
    assert names == ["new", "old"]


def test_a_tester_gets_the_new_version_whatever_the_share() -> None:
    """With every header of theirs, whoever else they are, and no Release is said to have decided."""
    testing = replace(ROLLOUT, share=0.0, testers={"x-beta": "1", "x-team": "a"}, tiers=("gold",))
    model = replace(THREE, releases=(testing,))
    tester = Caller({"x-beta": "1", "x-team": "a"}, consumer="team-1")
    assert assign(model, tester, undrawn) == Assigned(THREE.versions[1])
    almost = Caller({"x-beta": "1"}, consumer="team-1", tier="gold")
    assert assign(model, almost, undrawn).version.name != "new"
