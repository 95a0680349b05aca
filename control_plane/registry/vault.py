"""Stored secrets: provider keys that are kept sealed and leave by the push stream only."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace

from control_plane.registry.errors import InUseError, NotFoundError, OwnedError, SecretKeyError
from control_plane.registry.ledger import Ledger
from control_plane.registry.ports import SealedSecret, Sealer
from control_plane.registry.state import renumbered, secrets_changed
from control_plane.registry.values import MAX_SECRET_KEYS, MAX_SECRET_VALUE_LENGTH, Actor, SecretName
from control_plane.resources.names import SECRET_NAME
from control_plane.resources.problems import InvalidDocumentsError, Problem
from control_plane.resources.users import users_of_secret


class Vault:
    """Every stored secret. Each change of a value is a revision, so that sidecars get it like any other."""

    def __init__(self, ledger: Ledger, sealer: Sealer) -> None:
        self._ledger = ledger
        self._sealer = sealer
        self._rotating = asyncio.Lock()

    def names(self) -> list[SecretName]:
        """Return the secrets by name, never their values."""
        return list(self._ledger.state.secrets.values())

    async def put(self, name: str, values: Mapping[str, str], actor: Actor) -> bool:
        """Keep `values` in place of those the secret had; returns whether it is new.

        Raises:
            InvalidDocumentsError: a name or a value that no Backend could use.
            OwnedError: it is mirrored.
            SecretKeyError: this replica cannot seal as the others do.
        """
        problems = secret_problems(name, values)
        if problems:
            raise InvalidDocumentsError(problems)
        async with self._ledger.change() as change:
            if "secrets" in change.state.unread:
                raise SecretKeyError(change.state.unread["secrets"])
            _check_owner(change.state.secrets.get(name))
            sealed = {key: self._sealer.seal(name, key, value.encode()) for key, value in values.items()}
            created = name not in change.state.secrets
            await change.tx.put_secret(name, sealed, change.at)
            what = f"values {', '.join(sorted(values))} {'stored' if created else 'replaced'}"
            number = await change.add_plain_revision(actor, "secret", f"Secret/{name}", what)
            state = secrets_changed(change.state, await change.tx.secrets(), self._sealer)
            change.state = renumbered(state, number)
            change.touch("secrets")
        return created

    async def delete(self, name: str, actor: Actor) -> None:
        """Delete a secret.

        Raises:
            NotFoundError: there is no such secret.
            OwnedError: it is mirrored.
            InUseError: a Backend names it.
        """
        async with self._ledger.change() as change:
            if name not in change.state.secrets:
                raise NotFoundError(f"Secret/{name}")
            _check_owner(change.state.secrets[name])
            users = {
                user: None
                for head in (change.state.head, change.state.in_force)
                for user in users_of_secret(head.documents, name)
            }
            if users:
                raise InUseError(f"Secret/{name}", users)
            await change.tx.delete_secret(name)
            number = await change.add_plain_revision(actor, "secret", f"Secret/{name}", "deleted")
            state = secrets_changed(change.state, await change.tx.secrets(), self._sealer)
            change.state = renumbered(state, number)
            change.touch("secrets")

    async def rotate(self, actor: Actor) -> int:
        """Seal every value again with the newest key; returns how many there are. Values stay what they are.

        A crash in between leaves every value readable: old keys go only after the commit.
        """
        # One at a time: a key that another rotation makes meanwhile must not be the only one that is kept.
        async with self._rotating:
            self._sealer.renew()
            async with self._ledger.change() as change:
                sealed = [
                    replace(item, sealed=self._sealer.seal(item.name, item.key, self._open(item)))
                    for item in await change.tx.secrets()
                ]
                await change.tx.reseal(sealed)
                await change.audit(actor, "rotate", "secrets", detail=f"{len(sealed)} values sealed again")
                change.touch("secrets")
            self._sealer.retire()
        return len(sealed)

    def _open(self, item: SealedSecret) -> bytes:
        return self._sealer.unseal(item.name, item.key, item.sealed)


def _check_owner(stored: SecretName | None) -> None:
    if stored is not None and stored.owner:
        raise OwnedError([(f"Secret/{stored.name}", stored.owner)])


def secret_problems(name: str, values: Mapping[str, str]) -> list[Problem]:
    """Return what keeps a secret from being stored; no value is quoted."""
    document = f"Secret/{name[:253]}"
    names = "must be 1 to 253 letters, digits, '.', '_' and '-', not beginning with '.'"
    problems = [] if re.fullmatch(SECRET_NAME, name) else [Problem(document, "name", names)]
    if not 1 <= len(values) <= MAX_SECRET_KEYS:
        problems.append(
            Problem(document, "values", f"must hold 1 to {MAX_SECRET_KEYS} keys with their values")
        )
        return problems
    for key, value in values.items():
        if not re.fullmatch(SECRET_NAME, key):
            problems.append(Problem(document, "values", f"has a key that {names}"))
        elif not 1 <= len(value) <= MAX_SECRET_VALUE_LENGTH:
            problems.append(
                Problem(document, f"values.{key}", f"must be 1 to {MAX_SECRET_VALUE_LENGTH} characters")
            )
        elif not (value.isascii() and value.isprintable()):
            problems.append(
                Problem(document, f"values.{key}", "must be one line of printable ASCII characters")
            )
    return problems
