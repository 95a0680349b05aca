"""What webhooks are told of Releases: written down with each move, and kept until it was told.

Any replica may tell: whoever takes a bulletin has it for `LEASE_S`, then another one may. A target gets its
bulletins one after the other, so one that does not answer delays its own only.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from control_plane.registry.ledger import Change, Ledger
from control_plane.registry.ports import Bulletin
from control_plane.releases.events import Basis, body_of, body_text, event_of
from control_plane.releases.machine import Standing

LEASE_S: Final = 30.0
"""Beyond what one attempt may take; a replica that dies in it leaves the bulletin to the others."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What may be told now, and when there is more to do: None without anything that waits."""

    bulletins: tuple[Bulletin, ...]
    more_at: datetime | None


class Outbox:
    """The bulletins of this installation. Every method may raise `StoreUnavailableError`."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def take(self, limit: int) -> Taken:
        """Take up to `limit` bulletins that are due: nobody else tells them within `LEASE_S`."""
        now = self._ledger.now()
        async with self._ledger.look() as reading:
            waiting = await reading.bulletins()
        if not any(item.due_at <= now for item in waiting) or limit <= 0:
            return Taken((), min((item.due_at for item in waiting), default=None))
        taken: list[Bulletin] = []
        async with self._ledger.change() as change:
            waiting = await change.tx.bulletins()
            until = change.at + timedelta(seconds=LEASE_S)
            for item in [item for item in waiting if item.due_at <= change.at][:limit]:
                await change.tx.put_bulletin_off(item.id, until, item.attempts + 1)
                taken.append(item)
        ids = {item.id for item in taken}
        later = [until if item.id in ids else item.due_at for item in waiting]
        return Taken(tuple(taken), min(later, default=None))

    async def done(self, bulletin: Bulletin) -> None:
        """Forget a bulletin: it was told, or never will be."""
        async with self._ledger.change() as change:
            await change.tx.delete_bulletin(bulletin.id)

    async def put_off(self, bulletin: Bulletin, seconds: float) -> None:
        """Have another attempt made after `seconds`."""
        async with self._ledger.change() as change:
            due_at = change.at + timedelta(seconds=seconds)
            await change.tx.put_bulletin_off(bulletin.id, due_at, bulletin.attempts + 1)


async def tell(change: Change, name: str, before: Standing | None, basis: Basis) -> None:
    """Write down for each webhook of a Release that it moved from `before` to where `change` has it."""
    spec, after = change.state.head.documents.releases[name], change.state.head.releases[name]
    event = event_of(before, after)
    if event is None or not spec.notify:
        return
    versions = {"model": spec.model, "from": spec.from_version, "to": spec.to_version}
    body = body_text(body_of(event, name, versions, after, basis))
    targets = dict.fromkeys(webhook.model_dump_json(by_alias=True) for webhook in spec.notify)
    await change.tx.add_bulletins(
        [Bulletin(_id(name, after, target), name, target, body, change.at, change.at) for target in targets]
    )


def _id(name: str, standing: Standing, target: str) -> str:
    told = f"{name}\n{standing.begun}\n{standing.generation}\n{standing.since_s}\n{target}"
    return f"msg_{hashlib.sha256(told.encode()).hexdigest()[:32]}"
