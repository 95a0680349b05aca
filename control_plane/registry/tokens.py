"""API tokens as rows: who may do what is decided elsewhere, a token itself is never seen here."""

from __future__ import annotations

from dataclasses import replace

from control_plane.registry.errors import NotFoundError
from control_plane.registry.ledger import Ledger
from control_plane.registry.values import Actor, TokenRow


class Tokens:
    """Every API token. A change is no revision, since sidecars have no part in it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def add(self, row: TokenRow, actor: Actor) -> None:
        """Keep a new API token."""
        async with self._ledger.change() as change:
            await change.tx.add_token(row)
            detail = f"{row.role} {row.name}"
            await change.audit(actor, "create token", f"token {row.id}", detail=detail)
            change.state = replace(change.state, tokens={**change.state.tokens, row.id: row})
            change.touch("tokens")

    def all(self) -> list[TokenRow]:
        """Return every token, oldest first, revoked ones too; from memory."""
        return list(self._ledger.state.tokens.values())

    def by_id(self, token_id: str) -> TokenRow | None:
        """Return one token; from memory, so that it works while the database is gone."""
        return self._ledger.state.tokens.get(token_id)

    async def revoke(self, token_id: str, actor: Actor) -> None:
        """End a token now, on every replica within a second.

        Raises:
            NotFoundError: there is none, or it is revoked.
        """
        async with self._ledger.change() as change:
            row = change.state.tokens.get(token_id)
            if row is None or row.revoked_at is not None:
                raise NotFoundError(f"token {token_id}")
            await change.tx.revoke_token(token_id, change.at)
            await change.audit(actor, "revoke token", f"token {token_id}", detail=f"{row.role} {row.name}")
            ended = replace(row, revoked_at=change.at)
            change.state = replace(change.state, tokens={**change.state.tokens, token_id: ended})
            change.touch("tokens")
