"""What a mirror's wish makes of the stored secrets, decided before anything is written (pure)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from control_plane.registry.values import SecretName
from control_plane.registry.vault import secret_problems
from control_plane.registry.verdicts import Judgement, Kept, Reason

KIND: Final = "Secret"
CONFLICT: Final = "a secret of this name was stored by the API"
NO_TEXT: Final = "has values that are no text in base64"
Wanted = Mapping[str, Mapping[str, str]]
"""The values of each secret by its name and theirs, in base64, as Kubernetes writes them."""


@dataclass(frozen=True, slots=True)
class SecretsPlan:
    """The secrets that are stored anew and those that go; which are refused; which stay though unwanted."""

    stored: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    deleted: tuple[str, ...] = ()
    refused: tuple[Judgement, ...] = ()
    kept: tuple[Kept, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The secrets that change, by name."""
        return tuple(sorted((*self.stored, *self.deleted)))

    def told(self) -> str:
        """Return what changes, without a value."""
        parts = [("stored", sorted(self.stored)), ("deleted", self.deleted)]
        return "; ".join(f"secrets {what}: {', '.join(names)}" for what, names in parts if names)


def plan_secrets(
    owner: str,
    wanted: Wanted,
    known: Mapping[str, SecretName],
    values: Mapping[tuple[str, str], bytes],
    user_of: Callable[[str], str | None],
) -> SecretsPlan:
    """Return what becomes of the secrets that are `known`, with their `values`.

    `user_of` says which document that will be in force names a secret: as long as one does, it stays.
    """
    stored: dict[str, Mapping[str, str]] = {}
    refused: list[Judgement] = []
    for name, coded in sorted(wanted.items()):
        found = known.get(name)
        if found is not None and found.owner != owner:
            refused.append(Judgement(KIND, name, Reason.CONFLICT, CONFLICT))
            continue
        texts = _decoded(coded)
        problems = secret_problems(name, texts) if texts is not None else None
        if texts is None or problems:
            wrong = "; ".join(f"{item.field} {item.message}" for item in problems or ())
            shown = name[:253].encode("utf-8", "backslashreplace").decode()
            refused.append(Judgement(KIND, shown, Reason.INVALID, wrong or NO_TEXT))
        elif found is None or texts != _texts_of(found, values):
            stored[name] = texts
    unwanted = [name for name, item in known.items() if item.owner == owner and name not in wanted]
    users = {name: user_of(name) for name in unwanted}
    kept = [Kept(KIND, name, f"{user} still names it") for name, user in users.items() if user is not None]
    deleted = tuple(name for name, user in users.items() if user is None)
    return SecretsPlan(stored, deleted, tuple(refused), tuple(kept))


def _texts_of(secret: SecretName, values: Mapping[tuple[str, str], bytes]) -> dict[str, str]:
    return {key: values[secret.name, key].decode() for key in secret.keys}


def _decoded(coded: Mapping[str, str]) -> dict[str, str] | None:
    """Return the values as text; the line end that editors leave behind is of no key."""
    try:
        return {
            key: base64.b64decode(text, validate=True).decode().rstrip("\r\n") for key, text in coded.items()
        }
    except (binascii.Error, ValueError):
        return None
