"""API tokens: made, listed, revoked, by admins. A token is in the one answer that makes it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request
from starlette.responses import Response

from control_plane.api.bodies import Bodies
from control_plane.api.caller import actor_of, identity_of
from control_plane.api.errors import RefusedRequestError
from control_plane.api.operations import (
    CHANGING,
    JSON,
    READING_A_BODY,
    Answer,
    Body,
    Operation,
    add,
    schema_ref,
)
from control_plane.api.orders import TokenOrder, in_future
from control_plane.api.ports import SecretBook, Surroundings
from control_plane.api.wire import to_json
from control_plane.auth.roles import Need, Role
from control_plane.auth.tokens import new_token
from control_plane.registry.values import TokenRow
from control_plane.resources.problems import Problem

TokenId = Annotated[str, Path(description="The token's id.", max_length=200)]


@dataclass(frozen=True, slots=True)
class TokenRoutes:
    """Everything below `/api/v1/tokens`."""

    book: SecretBook
    bodies: Bodies
    surroundings: Surroundings

    async def create(self, request: Request) -> Response:
        """Make a token that is no wider than the caller's own."""
        order = await self.bodies.order(request, TokenOrder)
        now = self.surroundings.now()
        if not in_future(order.expires_at, now):
            message = "must be in the future"
            raise RefusedRequestError(422, f"expiresAt {message}", [Problem("", "expiresAt", message)])
        if not identity_of(request).may_grant(order.scopes):
            raise RefusedRequestError(403, "a token with scopes can only make tokens with some of its own")
        make = partial(
            new_token,
            order.name or "",
            order.role,
            order.scopes,
            now=now,
            expires_at=order.expires_at,
            entropy=self.surroundings.entropy,
        )
        # Hashing takes tens of milliseconds.
        made = await asyncio.to_thread(make)
        await self.book.add_token(made.row, actor_of(request))
        return Response(to_json({**_shown(made.row), "token": made.token}), 201, media_type=JSON)

    async def show_all(self) -> Response:
        """Answer what may be shown of the tokens."""
        rows = await self.book.tokens()
        return Response(to_json({"items": [_shown(row) for row in rows]}), media_type=JSON)

    async def revoke(self, request: Request, token_id: TokenId) -> Response:
        """End a token."""
        await self.book.revoke_token(token_id, actor_of(request))
        return Response(status_code=204)


def _shown(row: TokenRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "name": row.name,
        "role": row.role,
        "scopes": row.scopes,
        "createdAt": row.created_at,
        "expiresAt": row.expires_at,
        "revokedAt": row.revoked_at,
    }


def add_token_routes(app: FastAPI, book: SecretBook, bodies: Bodies, surroundings: Surroundings) -> None:
    """Serve API tokens."""
    routes = TokenRoutes(book, bodies, surroundings)
    base, tag = "/api/v1/tokens", "tokens"
    changing = Need(Role.ADMIN, "tokens:write")
    shown: dict[str, Any] = {
        "id": "5f2c81d09a3e",
        "name": "ci",
        "role": "editor",
        "scopes": ["models:write", "policies:write"],
        "createdAt": "2026-01-31T08:00:00.000000Z",
        "expiresAt": None,
        "revokedAt": None,
    }
    order = {"name": "ci", "role": "editor", "scopes": ["models:write", "policies:write"]}
    add(
        app,
        Operation(
            "POST",
            base,
            tag,
            "Create a token",
            changing,
            {
                201: Answer(
                    "The token, shown this once.",
                    schema_ref("NewToken"),
                    {**shown, "token": "ort_5f2c81d09a3e_shown-this-once"},
                )
            },
            "Roles: `viewer` reads; `editor` changes documents and keys too; `admin` tokens and secrets too; "
            "`sidecar` joins the push stream and nothing else. `scopes` narrow the role.",
            Body(schema_ref("TokenOrder"), {JSON: order}),
            (*READING_A_BODY, *CHANGING),
        ),
        routes.create,
    )
    add(
        app,
        Operation(
            "GET",
            base,
            tag,
            "List tokens",
            Need(Role.ADMIN, "tokens:read"),
            {200: Answer("The tokens, revoked ones too.", schema_ref("TokenList"), {"items": [shown]})},
        ),
        routes.show_all,
    )
    add(
        app,
        Operation(
            "DELETE",
            base + "/{token_id}",
            tag,
            "Revoke a token",
            changing,
            {204: Answer("It is refused from now on, by other replicas within a second.")},
            problems=(404, *CHANGING),
        ),
        routes.revoke,
    )
