"""Consumer keys: made, rotated with overlap, revoked; shown once and kept as a keyed digest."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from control_plane.registry.errors import NotFoundError
from control_plane.registry.ledger import Change, Ledger
from control_plane.registry.state import keys_changed, renumbered
from control_plane.registry.values import Actor, ConsumerKeyInfo, KeyRow, MintedKey
from control_plane.resources.problems import InvalidDocumentsError, Problem
from ext_proc.contract.keys import key_digest

PREFIX: Final = "ork_"
KEY_BYTES: Final = 32
ID_BYTES: Final = 10
HINT_LENGTH: Final = 4
MAX_OVERLAP: Final = timedelta(days=366)


class ConsumerKeys:
    """The keys of every Consumer. Each change is a revision, so that sidecars get it like any other."""

    def __init__(self, ledger: Ledger, random_bytes: Callable[[int], bytes]) -> None:
        self._ledger = ledger
        self._random_bytes = random_bytes

    def of(self, consumer: str) -> list[ConsumerKeyInfo]:
        """Return a Consumer's keys, oldest first, revoked ones too.

        Raises:
            NotFoundError: there is no such Consumer.
        """
        state = self._ledger.state
        if consumer not in state.head.documents.consumers:
            raise NotFoundError(f"Consumer/{consumer}")
        return [row.info for row in state.keys.values() if row.info.consumer == consumer]

    async def create(self, consumer: str, actor: Actor, *, expires_at: datetime | None = None) -> MintedKey:
        """Make a key.

        Raises:
            NotFoundError: there is no such Consumer.
            InvalidDocumentsError: `expires_at` is past.
        """
        async with self._ledger.change() as change:
            if consumer not in change.state.head.documents.consumers:
                raise NotFoundError(f"Consumer/{consumer}")
            if expires_at is not None and expires_at <= change.at:
                problem = Problem(f"Consumer/{consumer}", "expiresAt", "must be in the future")
                raise InvalidDocumentsError([problem])
            minted, row = self._mint(change, consumer, expires_at)
            await change.tx.add_key(row)
            await self._finish(change, actor, consumer, f"key {row.info.id} made", row)
        return minted

    async def rotate(self, consumer: str, key_id: str, actor: Actor, *, overlap: timedelta) -> MintedKey:
        """Make a key in place of another, which ends after `overlap`; the new one gets the lifetime of that.

        Raises:
            NotFoundError: the Consumer has no such key, or it has ended.
            InvalidDocumentsError: `overlap` is negative or above a year.
        """
        if not timedelta(0) <= overlap <= MAX_OVERLAP:
            problem = Problem(f"Consumer/{consumer}", "overlap", "must be from 0s to 366 days")
            raise InvalidDocumentsError([problem])
        async with self._ledger.change() as change:
            old = _live(change, consumer, key_id)
            minted, row = self._mint(change, consumer, _same_lifetime(old.info, change.at))
            end = change.at + overlap
            if old.info.expires_at is not None:
                end = min(end, old.info.expires_at)
            revoked_at = None if overlap else change.at
            ended = replace(old, info=replace(old.info, expires_at=end, revoked_at=revoked_at))
            await change.tx.add_key(row)
            await change.tx.end_key(key_id, expires_at=end, revoked_at=revoked_at)
            await self._finish(change, actor, consumer, f"key {row.info.id} made for {key_id}", row, ended)
        return minted

    async def revoke(self, consumer: str, key_id: str, actor: Actor) -> None:
        """End a key now.

        Raises:
            NotFoundError: the Consumer has no such key, or it is revoked.
        """
        async with self._ledger.change() as change:
            row = change.state.keys.get(key_id)
            if row is None or row.info.consumer != consumer or row.info.revoked_at is not None:
                raise NotFoundError(f"key {key_id} of Consumer/{consumer}")
            await change.tx.end_key(key_id, revoked_at=change.at)
            ended = replace(row, info=replace(row.info, revoked_at=change.at))
            await self._finish(change, actor, consumer, f"key {key_id} revoked", ended)

    def _mint(self, change: Change, consumer: str, expires_at: datetime | None) -> tuple[MintedKey, KeyRow]:
        key = PREFIX + base64.urlsafe_b64encode(self._random_bytes(KEY_BYTES)).decode().rstrip("=")
        key_id = "k" + base64.b32encode(self._random_bytes(ID_BYTES)).decode().lower()
        info = ConsumerKeyInfo(key_id, consumer, key[-HINT_LENGTH:], change.at, expires_at)
        row = KeyRow(info, key_digest(key, change.state.head.key_salt))
        return MintedKey(key_id, consumer, key, expires_at), row

    async def _finish(self, change: Change, actor: Actor, consumer: str, what: str, *rows: KeyRow) -> None:
        number = await change.add_plain_revision(actor, "key", f"Consumer/{consumer}", what)
        keys = {**change.state.keys, **{row.info.id: row for row in rows}}
        change.state = renumbered(keys_changed(change.state, keys), number)
        change.touch("keys")


def _same_lifetime(key: ConsumerKeyInfo, at: datetime) -> datetime | None:
    """Return when a key made at `at` ends if it lives as long as `key`, None for one without an end."""
    if key.expires_at is None:
        return None
    try:
        return at + (key.expires_at - key.created_at)
    except OverflowError:  # beyond what a date can say
        return key.expires_at


async def revoke_keys_of(change: Change, consumers: set[str]) -> None:
    """End every key of Consumers that are deleted by `change`."""
    ended: dict[str, KeyRow] = {}
    for key_id, row in change.state.keys.items():
        if row.info.consumer in consumers and row.info.revoked_at is None:
            await change.tx.end_key(key_id, revoked_at=change.at)
            ended[key_id] = replace(row, info=replace(row.info, revoked_at=change.at))
    if ended:
        change.state = keys_changed(change.state, {**change.state.keys, **ended})
        change.touch("keys")


def _live(change: Change, consumer: str, key_id: str) -> KeyRow:
    row = change.state.keys.get(key_id)
    if row is None or row.info.consumer != consumer or row.info.revoked_at is not None:
        raise NotFoundError(f"key {key_id} of Consumer/{consumer}")
    if row.info.expires_at is not None and row.info.expires_at <= change.at:
        raise NotFoundError(f"key {key_id} of Consumer/{consumer}")
    return row
