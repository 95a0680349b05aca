"""The first admin token: made when nobody could get in otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Protocol

from control_plane.auth.roles import Role
from control_plane.auth.tokens import Entropy, in_use, new_token
from control_plane.registry.values import ITSELF, Actor, TokenRow


class TokenBook(Protocol):
    """Where tokens are kept."""

    async def tokens(self) -> list[TokenRow]:
        """Return every token, revoked ones too."""

    async def add_token(self, row: TokenRow, actor: Actor) -> None:
        """Keep a new one."""


async def ensure_admin(
    book: TokenBook, given: str | None, *, now: Callable[[], datetime], entropy: Entropy
) -> str | None:
    """Return a new admin token to be shown once, or None when none is needed.

    None is needed when the operator gives one at start, or when a stored one is in use and not narrowed by
    scopes. Whoever has lost or revoked the last gets a new one by starting again.

    Raises:
        StoreUnavailableError: the database does not answer.
    """
    if given is not None and given.strip():
        return None
    at = now()
    if any(
        row.role == Role.ADMIN.value and not row.scopes and in_use(row, at) for row in await book.tokens()
    ):
        return None
    make = partial(new_token, "admin", Role.ADMIN, (), now=at, expires_at=None, entropy=entropy)
    made = await asyncio.to_thread(make)
    await book.add_token(made.row, ITSELF)
    return made.token
