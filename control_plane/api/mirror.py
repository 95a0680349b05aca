"""The mirror of Kubernetes: its controller says all that it wants to exist, and reads what became of it."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fastapi import FastAPI, Request
from starlette.responses import Response

from control_plane.api.bodies import Bodies
from control_plane.api.caller import actor_of, identity_of
from control_plane.api.conditions import not_modified
from control_plane.api.examples import EXAMPLES
from control_plane.api.guard import demand
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
from control_plane.api.orders import MirrorOrder
from control_plane.api.ports import Fleet, MirrorBook, Sidecar
from control_plane.api.releases import standing_wire
from control_plane.api.wire import to_json
from control_plane.auth.roles import Need, Role
from control_plane.registry.values import Head
from control_plane.resources.loading import RawDocument

OWNER: Final = "kubernetes"
PATH: Final = f"/api/v1/mirrors/{OWNER}"
MAX_WISH_BYTES: Final = 64 * 1024 * 1024
"""A wish is everything at once, long Pins too: one that is refused whole holds all documents back."""
_SECRETS: Final = Need(Role.ADMIN, "secrets:write")


@dataclass(frozen=True, slots=True)
class MirrorRoutes:
    """`/api/v1/mirrors/kubernetes`."""

    book: MirrorBook
    fleet: Fleet
    bodies: Bodies

    async def put(self, request: Request) -> Response:
        """Have everything be as the body wants it, as far as it can be."""
        order = await self.bodies.order(request, MirrorOrder, max_bytes=MAX_WISH_BYTES)
        if order.secrets:
            await demand(request, _SECRETS)
        # Who may not touch secrets leaves those alone that an admin's body brought.
        may_delete = identity_of(request).lacks(_SECRETS) is None
        secrets = order.secrets if order.secrets or may_delete else None
        raws = [RawDocument(value, "") for value in order.documents]
        return Response(
            to_json(await self.book.mirror(OWNER, raws, secrets, actor_of(request))), media_type=JSON
        )

    async def show(self, request: Request) -> Response:
        """Answer what is mirrored, and how far it has come."""
        body = to_json(mirror_wire(self.book.head, self.book.in_force, self.fleet.sidecars()))
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        if not_modified(request.headers.get("if-none-match"), etag):
            return Response(status_code=304, headers={"etag": etag})
        return Response(body, 200, {"etag": etag}, JSON)


def mirror_wire(head: Head, in_force: Head, sidecars: Iterable[Sidecar]) -> dict[str, Any]:
    """Return what is mirrored and where it is in force.

    A document is programmed when it is in force as it was accepted last: its revision was not halted. A
    sidecar is current for it once it acknowledged that revision or a later one.
    """
    held = sorted(revision_of(sidecar.acknowledged) for sidecar in sidecars if sidecar.connected)
    mirrored = [stored for stored in head.stored.values() if stored.owner == OWNER]
    items = []
    for stored in mirrored:
        found = in_force.stored.get(stored.key)
        programmed = found is not None and found.revision == stored.revision
        current = _at_least(held, stored.revision) if programmed else 0
        items.append(
            {
                "kind": stored.kind,
                "name": stored.name,
                "revision": stored.revision,
                "programmed": programmed,
                "sidecars": {"current": current, "total": len(held)},
            }
        )
    return {
        "revision": head.revision,
        "items": items,
        "releases": {
            stored.name: standing_wire(head.releases[stored.name])
            for stored in mirrored
            if stored.kind == "Release" and stored.name in head.releases
        },
        "sidecars": {"connected": len(held)},
    }


def revision_of(version: str) -> int:
    """Return the revision of a snapshot's version (`r12-0f3a…`); 0 of any other text."""
    text = version.partition("-")[0].removeprefix("r")
    return int(text) if text.isascii() and text.isdecimal() else 0


def _at_least(held: Sequence[int], revision: int) -> int:
    return len(held) - bisect_left(held, revision)


def add_mirror_routes(app: FastAPI, book: MirrorBook, fleet: Fleet, bodies: Bodies) -> None:
    """Serve the mirror."""
    routes = MirrorRoutes(book, fleet, bodies)
    tag = "mirrors"
    add(
        app,
        Operation(
            "PUT",
            PATH,
            tag,
            "Mirror Kubernetes",
            Need(Role.EDITOR, "mirrors:write"),
            {200: Answer("A verdict for each document.", schema_ref("Mirrored"), _MIRRORED)},
            "All documents and secrets that are to exist here for the custom resources of a cluster; what "
            "was mirrored and is not named is deleted. Each document is judged by itself: refused, it stays "
            "as it was accepted last. Secrets (values in base64) need an admin; without `secrets` they stay "
            "as they are. What is accepted is one new revision, or none without a change.",
            Body(
                schema_ref("MirrorOrder"),
                {
                    JSON: {
                        "documents": [EXAMPLES["Backend"], EXAMPLES["Model"]],
                        "secrets": {"openai": {"api-key": "dGhlIHByb3ZpZGVyJ3Mga2V5"}},
                    }
                },
            ),
            (*READING_A_BODY, *CHANGING),
        ),
        routes.put,
    )
    add(
        app,
        Operation(
            "GET",
            PATH,
            tag,
            "Read the mirror of Kubernetes",
            Need(Role.VIEWER, "mirrors:read"),
            {
                200: Answer(
                    "What is mirrored, and where it is in force.",
                    schema_ref("Mirror"),
                    _MIRROR,
                    headers={"ETag": "This answer."},
                ),
                304: Answer("Nothing has changed."),
            },
            "`programmed`: in force, and not refused by the data plane. `current` of the sidecars that are "
            "connected hold the document's revision, or a later one.",
            headers={"If-None-Match": "Tags that the caller has: 304 when one of them is current."},
        ),
        routes.show,
    )


_MIRRORED: Final[dict[str, Any]] = {
    "revision": 12,
    "items": [
        {
            "kind": "Backend",
            "name": "openai",
            "accepted": True,
            "reason": "Accepted",
            "message": "",
            "inForce": True,
            "revision": 12,
        },
        {
            "kind": "Model",
            "name": "gpt-4o-mini",
            "accepted": False,
            "reason": "UnknownReference",
            "message": 'spec.fallbacks[0] names the Model "gpt-4", which does not exist',
            "inForce": True,
            "revision": 9,
        },
    ],
    "kept": [{"kind": "Tier", "name": "gold", "message": "Consumer/team-a still names it"}],
}
_MIRROR: Final[dict[str, Any]] = {
    "revision": 12,
    "items": [
        {
            "kind": "Backend",
            "name": "openai",
            "revision": 12,
            "programmed": True,
            "sidecars": {"current": 3, "total": 3},
        }
    ],
    "releases": {
        "mini-2025-02": {
            "phase": "progressing",
            "step": 2,
            "share": 25.0,
            "reason": "every gate holds after 800 requests: errorRate 0.00875 (old 0.01)",
            "since": "2026-01-31T08:00:00Z",
            "decisions": [],
        }
    },
    "sidecars": {"connected": 3},
}
