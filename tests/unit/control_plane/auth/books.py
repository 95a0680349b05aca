"""Tokens kept in a dictionary: what the gate asks of the registry, and nothing else."""

from __future__ import annotations

from control_plane.registry.values import Actor, TokenRow


class Book:
    """Keeps tokens and counts how often it is asked."""

    def __init__(self) -> None:
        self.rows: dict[str, TokenRow] = {}
        self.asked = 0
        self.actors: list[Actor] = []

    async def token(self, token_id: str) -> TokenRow | None:
        """Return one row."""
        self.asked += 1
        return self.rows.get(token_id)

    async def tokens(self) -> list[TokenRow]:
        """Return all rows."""
        return list(self.rows.values())

    async def add_token(self, row: TokenRow, actor: Actor) -> None:
        """Keep a row."""
        self.rows[row.id] = row
        self.actors.append(actor)
