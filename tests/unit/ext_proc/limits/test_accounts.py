"""Which accounts a call has."""

from __future__ import annotations

from dataclasses import replace

from ext_proc.contract.snapshot import Consumer, Limits, Tier
from ext_proc.limits.accounts import accounts_of, limits_anything
from tests.unit.ext_proc.exchanges import snapshot

ONE = Limits(1)
POLICY = snapshot(tiers={"gold": Tier("gold", limits=ONE), "free": Tier("free")})
MODEL = POLICY.models["m"]


def keys(tier: str, consumer: Consumer | None = None, *, limited_model: bool = False) -> list[str]:
    """Return the keys of a call's accounts."""
    model = replace(MODEL, limits=ONE) if limited_model else MODEL
    return [account.key for account in accounts_of(POLICY, tier, consumer, model)]


def test_each_consumer_has_a_tiers_limits_for_itself() -> None:
    """Whoever has no Consumer shares them; an unknown Tier, and one without limits, limits nothing."""
    assert keys("gold") == ["tier:gold"]
    assert keys("gold", Consumer("a", "t")) == ["tier:gold/a"]
    assert keys("free") == keys("unknown") == keys("") == []


def test_every_limit_counts_at_once() -> None:
    """The Tier's, the Consumer's and the Model's."""
    consumer = Consumer("a", "t", limits=ONE)
    assert keys("gold", consumer, limited_model=True) == ["tier:gold/a", "consumer:a", "model:m"]


def test_a_mesh_without_limits_is_known_as_such() -> None:
    """So that no call looks for any."""
    assert not limits_anything(snapshot())
    assert limits_anything(POLICY)
    assert limits_anything(snapshot(consumers={"a": Consumer("a", "t", limits=ONE)}))
    assert limits_anything(snapshot(models={"m": replace(MODEL, limits=ONE)}))


def test_priorities_count_on_limits_that_are_everybodys() -> None:
    """A Model's; callers without a Tier have 0, and where all are equal nobody is shed."""
    model = replace(MODEL, limits=ONE)
    tiers = {"gold": Tier("gold", priority=10), "free": Tier("free", priority=1)}
    policy = snapshot(tiers=tiers)
    for tier, rank, asked in (("gold", 0, 1.0), ("free", 1, 0.8), ("", 2, 0.8)):
        (account,) = accounts_of(policy, tier, None, model)
        assert account.shedding is not None
        assert (account.shedding.rank, account.shedding.asked) == (rank, asked)
    (account,) = accounts_of(POLICY, "gold", None, model)[1:]
    assert account.shedding is None
