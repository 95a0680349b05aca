"""A Consumer's keys: made, listed, rotated, revoked. A key is in the one answer that makes it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request
from starlette.responses import Response

from control_plane.api.bodies import Bodies
from control_plane.api.caller import actor_of
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
from control_plane.api.orders import KeyOrder, RotationOrder
from control_plane.api.ports import SecretBook
from control_plane.api.wire import timestamp, to_json
from control_plane.auth.roles import Need, Role
from control_plane.registry.values import MintedKey

Consumer = Annotated[str, Path(description="The Consumer's name.", max_length=1_000)]
KeyId = Annotated[str, Path(description="The key's id.", max_length=200)]


@dataclass(frozen=True, slots=True)
class KeyRoutes:
    """Everything below `/api/v1/consumers/{name}/keys`."""

    book: SecretBook
    bodies: Bodies

    async def create(self, request: Request, name: Consumer) -> Response:
        """Make a key."""
        order = await self.bodies.order(request, KeyOrder, optional=True)
        return _minted(await self.book.create_key(name, actor_of(request), expires_at=order.expires_at))

    async def show_all(self, name: Consumer) -> Response:
        """Answer what may be shown of the keys."""
        return Response(to_json({"items": await self.book.keys(name)}), media_type=JSON)

    async def rotate(self, request: Request, name: Consumer, key_id: KeyId) -> Response:
        """Make a key in place of another."""
        order = await self.bodies.order(request, RotationOrder, optional=True)
        overlap = timedelta(milliseconds=order.overlap_ms)
        return _minted(await self.book.rotate_key(name, key_id, actor_of(request), overlap=overlap))

    async def revoke(self, request: Request, name: Consumer, key_id: KeyId) -> Response:
        """End a key."""
        await self.book.revoke_key(name, key_id, actor_of(request))
        return Response(status_code=204)


def _minted(minted: MintedKey) -> Response:
    # Field by field: the key is left out of every other form of this value.
    expires_at = timestamp(minted.expires_at) if minted.expires_at else None
    shown = {"id": minted.id, "consumer": minted.consumer, "key": minted.key, "expiresAt": expires_at}
    return Response(to_json(shown), 201, media_type=JSON)


def add_key_routes(app: FastAPI, book: SecretBook, bodies: Bodies) -> None:
    """Serve Consumer keys."""
    routes = KeyRoutes(book, bodies)
    base, tag = "/api/v1/consumers/{name}/keys", "consumers"
    changing = Need(Role.EDITOR, "consumers:keys")
    minted: dict[str, Any] = {
        "id": "k7",
        "consumer": "team-a",
        "key": "ork_shown-this-once",
        "expiresAt": "2027-01-31T08:00:00Z",
    }
    info: dict[str, Any] = {
        "id": "k7",
        "consumer": "team-a",
        "hint": "…once",
        "createdAt": "2026-01-31T08:00:00.000000Z",
        "expiresAt": None,
        "revokedAt": None,
    }
    new_key = Answer("The key, shown this once.", schema_ref("NewKey"), minted)
    add(
        app,
        Operation(
            "POST",
            base,
            tag,
            "Create a key of a Consumer",
            changing,
            {201: new_key},
            "The answer is the only place where the key is ever shown.",
            Body(schema_ref("KeyOrder"), {JSON: {"expiresAt": "2027-01-31T08:00:00Z"}}, required=False),
            (*READING_A_BODY, 404, *CHANGING),
        ),
        routes.create,
    )
    add(
        app,
        Operation(
            "GET",
            base,
            tag,
            "List the keys of a Consumer",
            Need(Role.VIEWER, "consumers:read"),
            {200: Answer("The keys, without the keys themselves.", schema_ref("KeyList"), {"items": [info]})},
            problems=(404,),
        ),
        routes.show_all,
    )
    add(
        app,
        Operation(
            "POST",
            base + "/{key_id}/rotate",
            tag,
            "Rotate a key of a Consumer",
            changing,
            {201: new_key},
            "The old key goes on for `overlap` (24h without it), so that callers can change at their pace.",
            Body(schema_ref("RotationOrder"), {JSON: {"overlap": "24h"}}, required=False),
            (*READING_A_BODY, 404, *CHANGING),
        ),
        routes.rotate,
    )
    add(
        app,
        Operation(
            "DELETE",
            base + "/{key_id}",
            tag,
            "Revoke a key of a Consumer",
            changing,
            {204: Answer("It is revoked: sidecars refuse it within a second.")},
            problems=(404, *CHANGING),
        ),
        routes.revoke,
    )
