"""Stored provider keys: put, listed by name, deleted, by admins. No answer holds a value."""

from __future__ import annotations

from dataclasses import dataclass
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
from control_plane.api.orders import SecretOrder
from control_plane.api.ports import SecretBook
from control_plane.api.wire import to_json
from control_plane.auth.roles import Need, Role
from control_plane.resources.names import SECRET_NAME

Name = Annotated[str, Path(description="The secret's name.", pattern=f"^{SECRET_NAME}$")]
AnyName = Annotated[str, Path(description="The secret's name.", max_length=1_000)]


@dataclass(frozen=True, slots=True)
class SecretRoutes:
    """Everything below `/api/v1/secrets`."""

    book: SecretBook
    bodies: Bodies

    async def show_all(self) -> Response:
        """Answer the names."""
        return Response(to_json({"items": await self.book.secret_names()}), media_type=JSON)

    async def put(self, request: Request, name: Name) -> Response:
        """Store a secret's values."""
        order = await self.bodies.order(request, SecretOrder)
        is_new = await self.book.put_secret(name, order.values, actor_of(request))
        return Response(status_code=201 if is_new else 204)

    async def rotate(self, request: Request) -> Response:
        """Seal every value again."""
        return Response(
            to_json({"rotated": await self.book.rotate_secrets(actor_of(request))}), media_type=JSON
        )

    async def delete(self, request: Request, name: AnyName) -> Response:
        """Delete a secret that no Backend names."""
        await self.book.delete_secret(name, actor_of(request))
        return Response(status_code=204)


def add_secret_routes(app: FastAPI, book: SecretBook, bodies: Bodies) -> None:
    """Serve stored secrets."""
    routes = SecretRoutes(book, bodies)
    base, tag = "/api/v1/secrets", "secrets"
    changing = Need(Role.ADMIN, "secrets:write")
    shown: dict[str, Any] = {
        "name": "openai",
        "keys": ["api-key"],
        "changedAt": "2026-01-31T08:00:00.000000Z",
    }
    add(
        app,
        Operation(
            "GET",
            base,
            tag,
            "List secrets",
            Need(Role.ADMIN, "secrets:read"),
            {200: Answer("Names and the names of values.", schema_ref("SecretList"), {"items": [shown]})},
        ),
        routes.show_all,
    )
    add(
        app,
        Operation(
            "PUT",
            base + "/{name}",
            tag,
            "Store a secret",
            changing,
            {204: Answer("It has the new values."), 201: Answer("It is new.")},
            "Kept encrypted; given only to sidecars whose Backends name it by `credentials.secretRef`.",
            Body(schema_ref("SecretOrder"), {JSON: {"values": {"api-key": "the provider's key"}}}),
            (*READING_A_BODY, *CHANGING, 409),
        ),
        routes.put,
    )
    add(
        app,
        Operation(
            "DELETE",
            base + "/{name}",
            tag,
            "Delete a secret",
            changing,
            {204: Answer("It is gone.")},
            "Refused (409) while a Backend names it, or when it is mirrored.",
            problems=(404, 409, *CHANGING),
        ),
        routes.delete,
    )
    add(
        app,
        Operation(
            "POST",
            base + "/rotate",
            tag,
            "Rotate the encryption of secrets",
            changing,
            {200: Answer("How many values there are.", schema_ref("Rotated"), {"rotated": 3})},
            "A new encryption key is made and every value is sealed with it; the values stay what they are.",
            problems=CHANGING,
        ),
        routes.rotate,
    )
