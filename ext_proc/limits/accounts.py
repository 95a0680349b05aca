"""Which accounts a call has, by the snapshot: its Tier's, its Consumer's, its Model's (pure)."""

from __future__ import annotations

from typing import Final

from ext_proc.contract.snapshot import Consumer, Limits, Model, Snapshot, Tier
from ext_proc.limits.claims import MODEL, Account
from ext_proc.limits.priorities import Shedding, shedding_of

PRIORITY_WITHOUT_TIER: Final = 0


def accounts_of(
    snapshot: Snapshot, tier: str, consumer: Consumer | None, model: Model | None
) -> tuple[Account, ...]:
    """Return the accounts that have a limit. A Tier that nobody configured limits nothing.

    A Tier's limits are each Consumer's own; its callers without a Consumer share one account. A Model's are
    everybody's, so that there lower tiers are shed first.
    """
    found: list[Account] = []
    known = snapshot.tiers.get(tier)
    if known is not None and known.limits is not None:
        whose = f"/{consumer.name}" if consumer is not None else ""
        found.append(Account(f"tier:{tier}{whose}", f"the tier {tier}", known.limits))
    if consumer is not None and consumer.limits is not None:
        found.append(Account(f"consumer:{consumer.name}", f"the consumer {consumer.name}", consumer.limits))
    if model is not None and model.limits is not None:
        shedding = _shedding(snapshot, known)
        found.append(Account(f"{MODEL}{model.name}", f"the model {model.name}", model.limits, shedding))
    return tuple(found)


def _shedding(snapshot: Snapshot, tier: Tier | None) -> Shedding | None:
    """Return when the caller is shed; None where all have the same priority."""
    every = {one.priority for one in snapshot.tiers.values()}
    if len(every | {PRIORITY_WITHOUT_TIER}) == 1:
        return None
    return shedding_of(tier.priority if tier is not None else PRIORITY_WITHOUT_TIER, every)


def limits_anything(snapshot: Snapshot) -> bool:
    """Whether any call may have an account."""
    every: tuple[Limits | None, ...] = (
        *(tier.limits for tier in snapshot.tiers.values()),
        *(consumer.limits for consumer in snapshot.consumers.values()),
        *(model.limits for model in snapshot.models.values()),
    )
    return any(limits is not None for limits in every)
