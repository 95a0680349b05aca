"""Which purges are kept, and what sidecars get of them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.resources.documents import check_documents
from control_plane.resources.kinds.consumer import ConsumerSpec
from control_plane.resources.loading import read_text
from control_plane.resources.purges import (
    LONGEST_KEPT_S,
    MAX_PURGES,
    effective_purges,
    kept_for_s,
    partition_of,
    with_purge,
)
from ext_proc.contract.snapshot import Purge

DAY_S = 86_400.0


def test_a_tenant_is_written_by_its_name_or_as_it_is_shown() -> None:
    """A digest, a workload and a Consumer as `cache export` shows them."""
    assert partition_of("team-a") == "tenant:team-a"
    for shown in ("tenant:team-a", "key:0a1b", "workload:shop", "consumer:app", "global"):
        assert partition_of(shown) == shown
    assert partition_of("tenant:key:x") == "tenant:key:x"


def test_a_purge_makes_those_below_it_needless() -> None:
    """A wider one, or the same again."""
    narrow = Purge(1.0, "tenant:a", "m", "v", "ab")
    other = Purge(1.0, "tenant:b")
    for wide in (
        replace(narrow, at_s=2.0),
        Purge(2.0, "tenant:a"),
        Purge(2.0, model="m"),
        Purge(2.0, model="m", version="v"),
        Purge(2.0, key_prefix="a"),
    ):
        assert with_purge((narrow, other), wide, DAY_S) == (other, wide)
    assert with_purge((narrow, other), Purge(2.0), DAY_S) == (Purge(2.0),)
    for else_ in (Purge(2.0, "tenant:c"), Purge(2.0, model="n"), Purge(2.0, key_prefix="abc")):
        assert with_purge((narrow,), else_, DAY_S) == (narrow, else_)


def test_a_clock_that_goes_back_voids_no_less() -> None:
    """The next purge is at least at the moment of the one before."""
    assert with_purge((Purge(9.0, "tenant:a"),), Purge(3.0, "tenant:b"), DAY_S)[-1] == Purge(9.0, "tenant:b")


def test_what_is_older_than_any_answer_is_forgotten() -> None:
    """Nothing that it voids can be left."""
    old, young = Purge(0.0, "tenant:a"), Purge(1.0, "tenant:b")
    assert with_purge((old, young), Purge(DAY_S, "tenant:c"), DAY_S)[0] == young


purges = st.builds(
    Purge,
    at_s=st.just(0.0),
    tenant=st.sampled_from([None, "tenant:a", "tenant:b"]),
    model=st.sampled_from([None, "m", "n"]),
    version=st.none(),
    key_prefix=st.sampled_from([None, "a", "ab", "b"]) | st.text("0123456789abcdef", min_size=3, max_size=3),
)


def is_void(purge: Purge, at_s: float, tenant: str, model: str, key: str) -> bool:
    """Say whether `purge` voids such an answer, as the data plane decides it."""
    return (
        at_s <= purge.at_s
        and purge.tenant in (None, tenant)
        and purge.model in (None, model)
        and key.startswith(purge.key_prefix or "")
    )


@settings(max_examples=30, deadline=None)
@given(st.lists(purges, min_size=1, max_size=40), st.integers(1, 4))
def test_whatever_is_dropped_or_merged_nothing_comes_back(wanted: list[Purge], factor: int) -> None:
    """All that one of them voids stays void by those that are kept, which are never too many."""
    kept: tuple[Purge, ...] = ()
    made: list[Purge] = []
    for number in range(factor * 80):
        purge = replace(wanted[number % len(wanted)], at_s=float(number))
        kept = with_purge(kept, purge, DAY_S)
        made.append(purge)
    assert len(kept) <= MAX_PURGES
    for purge in made:
        answer = (purge.at_s, purge.tenant or "tenant:x", purge.model or "x", purge.key_prefix or "")
        assert any(is_void(one, *answer) for one in kept)


def test_of_too_many_the_oldest_become_one() -> None:
    """It voids what both did, and no more than they have in common allows."""
    kept: tuple[Purge, ...] = ()
    for number in range(MAX_PURGES + 1):
        kept = with_purge(kept, Purge(float(number), "tenant:a", "m", "v", f"ab{number:03x}"), DAY_S)
    assert len(kept) == MAX_PURGES
    assert kept[0] == Purge(1.0, "tenant:a", "m", "v", "ab00")


def test_a_version_without_its_model_is_never_left() -> None:
    """Two Models' versions of one name are different ones."""
    kept: tuple[Purge, ...] = (Purge(0.0, model="m", version="v"), Purge(0.5, model="n", version="v"))
    for number in range(MAX_PURGES - 1):
        kept = with_purge(kept, Purge(1.0 + number, f"tenant:{number}"), DAY_S)
    assert kept[0] == Purge(0.5)


def test_a_tenants_consumers_have_their_purges_too() -> None:
    """Under `scope: consumer` theirs are kept apart. What is too much for that voids every tenant's."""
    consumers = {name: ConsumerSpec(tenant="a") for name in ("x", "y")} | {"z": ConsumerSpec(tenant="b")}
    purge, other = Purge(1.0, "tenant:a", "m"), Purge(2.0, "key:0a")
    assert effective_purges((purge, other), consumers) == (
        purge,
        replace(purge, tenant="consumer:x"),
        replace(purge, tenant="consumer:y"),
        other,
    )
    many = {f"{number}": ConsumerSpec(tenant="a") for number in range(MAX_PURGES)}
    assert effective_purges((purge, other), many) == (replace(purge, tenant=None), other)


def test_a_purge_is_remembered_as_long_as_an_answer_may_be_kept() -> None:
    """Its time to live, and the time that it may be served stale; a month at least."""
    text = "kind: Policy\nmetadata: {name: p}\nspec: {cache: {ttl: 1000h, staleIfError: 10h}}"
    assert kept_for_s(check_documents(read_text(text.encode(), "p.yaml"))) == 1010 * 3600
    assert kept_for_s(check_documents([])) == LONGEST_KEPT_S
