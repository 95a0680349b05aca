"""How much accounts of limits have used: what a processor admitted, for its agent and the control plane.

Each processor tells what it admitted itself, also where it counts with others in Redis: so the sum over all
processors counts every call once. Protocol: push.proto.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import nlargest
from typing import Final, NamedTuple

from ext_proc.contract import push_pb2

MAX_USES: Final = 100
"""So many accounts are told: those that use most."""
_MAX_NAME: Final = 600


class Use(NamedTuple):
    """What one account used: of the last minute, of the last day (cost in millionths), and now."""

    requests: int = 0
    tokens: int = 0
    day_tokens: int = 0
    day_cost_micros: int = 0
    at_once: int = 0

    def plus(self, other: Use) -> Use:
        """Return both as one."""
        return Use(*map(sum, zip(self, other, strict=True)))

    def minus(self, other: Use) -> Use:
        """Return what is left without `other`, which was counted in."""
        return Use(*(one - more for one, more in zip(self, other, strict=True)))


Uses = Mapping[str, Use]
"""By account: `tier:NAME`, `tier:NAME/CONSUMER`, `consumer:NAME` or `model:NAME`."""


def most_used(uses: Uses, limit: int = MAX_USES) -> Uses:
    """Return the accounts that use most: those of the minute first, then those of the day."""
    chosen = uses if len(uses) <= limit else nlargest(limit, uses, key=uses.__getitem__)
    return {account: uses[account] for account in sorted(chosen)}


def merged_uses(several: Iterable[Uses]) -> Uses:
    """Return the sum over processors."""
    found: dict[str, Use] = {}
    for uses in several:
        for account, use in uses.items():
            known = found.get(account)
            found[account] = use if known is None else known.plus(use)
    return found


def uses_message(uses: Uses) -> push_pb2.LimitUses:
    """Return the message that tells them."""
    return push_pb2.LimitUses(
        uses=[push_pb2.LimitUse(account=account, **use._asdict()) for account, use in sorted(uses.items())]
    )


def uses_of(message: push_pb2.LimitUses) -> Uses:
    """Return what a message tells; what is beyond all reason in number is left out."""
    return {
        item.account[:_MAX_NAME]: Use(
            item.requests, item.tokens, item.day_tokens, item.day_cost_micros, item.at_once
        )
        for item in message.uses[:MAX_USES]
    }
