"""Purges of cached answers: each is a revision, so that sidecars get it like any other change."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from control_plane.registry.ledger import Ledger
from control_plane.registry.state import State, renumbered
from control_plane.registry.values import Actor, Purged
from control_plane.resources.kinds.model import ModelSpec
from control_plane.resources.parsing import near
from control_plane.resources.problems import InvalidDocumentsError, Problem
from control_plane.resources.purges import kept_for_s, partition_of, with_purge
from ext_proc.contract.snapshot import Purge

TARGET: Final = "cache"
KEY_DIGITS: Final = 64


class Purges:
    """The purges of this installation."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def add(
        self,
        actor: Actor,
        *,
        tenant: str | None = None,
        model: str | None = None,
        version: str | None = None,
        key_prefix: str | None = None,
    ) -> Purged:
        """Void every answer that was asked for until now and meets all conditions that are not None.

        `tenant` is a tenant's name or a partition as it is shown; `model` may be an alias.

        Raises:
            InvalidDocumentsError: there is no such Model or version, or a version without its Model.
        """
        async with self._ledger.change() as change:
            head = change.state.head
            model = _known_model(change.state, model, version)
            wanted = Purge(
                change.at.timestamp(),
                tenant=partition_of(tenant) if tenant is not None else None,
                model=model,
                version=version,
                key_prefix=key_prefix.lower() if key_prefix is not None else None,
            )
            kept_s = max(kept_for_s(head.documents), kept_for_s(change.state.in_force.documents))
            purges = with_purge(head.purges, wanted, kept_s)
            made = purges[-1]
            await change.tx.put_purges(purges)
            number = await change.add_plain_revision(actor, "purge", TARGET, _told(made))
            change.state = renumbered(change.state.with_everywhere(purges=purges), number)
        at = datetime.fromtimestamp(made.at_s, UTC)
        return Purged(number, at, made.tenant, made.model, made.version, made.key_prefix)


def _known_model(state: State, model: str | None, version: str | None) -> str | None:
    """Return the name of the Model that `model` means."""
    if model is None:
        if version is not None:
            raise _refused("version", "needs its Model: give `model` too")
        return None
    found: dict[str, ModelSpec] = {}
    # What is halted is edited, and what is in force fills caches.
    for models in (state.in_force.documents.models, state.head.documents.models):
        found.update(models)
    name = next((owner for owner, spec in found.items() if model in spec.aliases), model)
    if name not in found:
        raise _refused("model", f"names no Model and no alias{_hint(model, found)}")
    versions = {
        known.name
        for head in (state.in_force, state.head)
        if name in head.documents.models
        for known in head.documents.models[name].versions
    }
    if version is not None and version not in versions:
        raise _refused("version", f"names no version of Model/{name}{_hint(version, versions)}")
    return name


def _hint(name: str, known: Iterable[str]) -> str:
    found = near(name, sorted(known))
    return "" if found is None else f'; did you mean "{found}"?'


def _refused(field: str, message: str) -> InvalidDocumentsError:
    return InvalidDocumentsError([Problem("", field, message)])


def _told(purge: Purge) -> str:
    prefix = purge.key_prefix
    whole = prefix is None or len(prefix) == KEY_DIGITS
    parts = (
        ("Model", purge.model),
        ("version", purge.version),
        ("tenant", purge.tenant),
        ("key", prefix if whole else f"{prefix}…"),
    )
    return ", ".join(f"{name} {value}" for name, value in parts if value is not None) or "every answer"
