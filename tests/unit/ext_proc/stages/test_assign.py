"""Which version answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.contract.snapshot import Consumer, Model, Version
from ext_proc.stages.assign import Assign, pick, point
from tests.unit.ext_proc.exchanges import exchange, snapshot

TWO = Model("m", (Version("old", "b", "m-1", 95), Version("new", "b", "m-2", 5)))


def test_shares_follow_the_weights() -> None:
    """5 of 100 are 5 %, whatever the weights sum to."""
    chosen = Counter(pick(TWO, place / 1000).name for place in range(1000))
    assert chosen == {"old": 950, "new": 50}


@given(st.floats(0, 1, exclude_max=True))
def test_a_version_of_weight_zero_is_never_chosen(place: float) -> None:
    """Not at the edges either."""
    model = Model("m", (Version("a", "b", "m", 0), Version("b", "b", "m", 1), Version("c", "b", "m", 0)))
    assert pick(model, place).name == "b"


def test_places_are_uniform_and_constant() -> None:
    """One key has one place; many keys fill the range evenly."""
    assert point("m", "consumer:a") == point("m", "consumer:a")
    places = [point("m", f"consumer:{number}") for number in range(20_000)]
    assert sum(place < 0.05 for place in places) == pytest.approx(1000, abs=120)


async def test_a_caller_stays_on_its_version() -> None:
    """By Consumer, else by session; with neither each request is drawn anew."""
    policy = snapshot(models={"m": TWO})
    draws = iter([0.1, 0.99])
    stage = Assign(lambda: next(draws))
    names = []
    for _ in range(2):
        opened = exchange(policy)
        opened.model = TWO
        await stage.on_request(opened)
        names.append(opened.version.name if opened.version else None)
    assert names == ["old", "new"]
    sticky = set()
    for _ in range(20):
        opened = exchange(policy, headers={"x-outrigger-session": "s"})
        opened.model, opened.consumer = TWO, Consumer("team", "t")
        await stage.on_request(opened)
        sticky.add(opened.version)
        assert opened.backend is policy.backends["b"]
    assert len(sticky) == 1


async def test_a_model_with_fallbacks_has_candidates() -> None:
    """The assigned version comes first, then one of each fallback; taking one passes over those before."""
    spare = Model("spare", (Version("v", "b", "spare-1"),))
    model = replace(TWO, fallbacks=("spare",))
    opened = exchange(snapshot(models={"m": model, "spare": spare}))
    opened.model = model
    await Assign(lambda: 0.0).on_request(opened)
    assert [(one.model, one.version) for one in opened.candidates] == [
        (model, TWO.versions[0]),
        (spare, spare.versions[0]),
    ]
    opened.take(opened.candidates[1])
    assert (opened.model, opened.version, len(opened.candidates)) == (spare, spare.versions[0], 1)
