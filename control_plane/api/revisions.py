"""History: revisions, what each changed, going back to one; and the audit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import FastAPI, Path, Query, Request
from starlette.responses import Response

from control_plane.api.apply import applied_wire, changes_wire
from control_plane.api.caller import actor_of
from control_plane.api.operations import CHANGING, JSON, Answer, Operation, add, schema_ref
from control_plane.api.ports import DocumentBook
from control_plane.api.wire import timestamp, to_json
from control_plane.auth.roles import Need, Role
from control_plane.registry.values import Revision

MAX_PAGE: Final = 500
# What an SQL integer holds.
_MAX_NUMBER: Final = 2**31 - 1

Number = Annotated[int, Path(ge=1, le=_MAX_NUMBER, description="The revision's number.")]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="How many to answer.")]
Before = Annotated[int | None, Query(ge=1, le=_MAX_NUMBER, description="Only what is older than this one.")]
Against = Annotated[
    int | None,
    Query(
        ge=0,
        le=_MAX_NUMBER,
        description="The older one (0: the empty beginning); without it the one before.",
    ),
]


@dataclass(frozen=True, slots=True)
class RevisionRoutes:
    """Everything below `/api/v1/revisions`, and `/api/v1/audit`."""

    book: DocumentBook

    async def show_all(self, limit: Limit = 50, before: Before = None) -> Response:
        """Answer revisions, newest first."""
        found = await self.book.revisions(limit=limit, before=before)
        return _json({"items": [_wire(revision, fields=False) for revision in found]})

    async def show(self, number: Number) -> Response:
        """Answer one revision."""
        return _json(_wire(await self.book.revision(number), fields=True))

    async def diff(self, number: Number, against: Against = None) -> Response:
        """Answer what differs between two revisions."""
        older = number - 1 if against is None else against
        changes = await self.book.diff(older, number)
        return _json({"revision": number, "against": older, "changes": changes_wire(changes)})

    async def rollback(self, request: Request, number: Number) -> Response:
        """Make the documents what they were at a revision."""
        applied = await self.book.rollback(number, actor_of(request))
        return _json(applied_wire(applied, dry_run=False))

    async def audit(self, limit: Limit = 100, before: Before = None) -> Response:
        """Answer audit rows, newest first."""
        return _json({"items": await self.book.audit(limit=limit, before=before)})


def _wire(revision: Revision, *, fields: bool) -> dict[str, Any]:
    changes: list[dict[str, Any]] = [
        {"document": change.document, "action": change.action.value} for change in revision.changes
    ]
    return {
        "revision": revision.revision,
        "at": timestamp(revision.at),
        "actor": revision.actor,
        "source": revision.source,
        "action": revision.action,
        "state": revision.state.value,
        "reason": revision.reason,
        "detail": revision.detail,
        "rolledBackTo": revision.rolled_back_to,
        "changes": changes_wire(revision.changes) if fields else changes,
    }


def _json(value: object) -> Response:
    return Response(to_json(value), media_type=JSON)


def add_revision_routes(app: FastAPI, book: DocumentBook) -> None:
    """Serve history and audit."""
    routes = RevisionRoutes(book)
    base, tag = "/api/v1/revisions", "revisions"
    reading, writing = Need(Role.VIEWER, "revisions:read"), Need(Role.EDITOR, "revisions:write")
    change = {"document": "Model/gpt-4o-mini", "action": "update"}
    detailed = {**change, "fields": [{"field": "spec.versions[1].weight", "before": 5, "after": 25}]}
    shown: dict[str, Any] = {
        "revision": 12,
        "at": "2026-01-31T08:00:00.000000Z",
        "actor": "ci",
        "source": "10.0.0.7",
        "action": "apply",
        "state": "accepted",
        "reason": "",
        "detail": "",
        "rolledBackTo": None,
        "changes": [change],
    }
    add(
        app,
        Operation(
            "GET",
            base,
            tag,
            "List revisions",
            reading,
            {200: Answer("Revisions, newest first.", schema_ref("RevisionList"), {"items": [shown]})},
            "`before` is the oldest revision of the page before.",
        ),
        routes.show_all,
    )
    add(
        app,
        Operation(
            "GET",
            base + "/{number}",
            tag,
            "Read a revision",
            reading,
            {200: Answer("The revision.", schema_ref("Revision"), {**shown, "changes": [detailed]})},
            problems=(404,),
        ),
        routes.show,
    )
    add(
        app,
        Operation(
            "GET",
            base + "/{number}/diff",
            tag,
            "Compare two revisions",
            reading,
            {
                200: Answer(
                    "What differs.",
                    schema_ref("Diff"),
                    {"revision": 12, "against": 11, "changes": [detailed]},
                )
            },
            problems=(404,),
        ),
        routes.diff,
    )
    add(
        app,
        Operation(
            "POST",
            base + "/{number}/rollback",
            tag,
            "Roll back to a revision",
            writing,
            {
                200: Answer(
                    "What became of each document.",
                    schema_ref("Applied"),
                    {"revision": 13, "dryRun": False, "changes": [detailed], "warnings": []},
                )
            },
            "The documents become what they were at that revision, as a new revision. Consumer keys stay as "
            "they are: a revoked key stays revoked.",
            problems=(404, *CHANGING),
        ),
        routes.rollback,
    )
    row = {
        "id": 40,
        "at": "2026-01-31T08:00:00.000000Z",
        "actor": "ci",
        "role": "editor",
        "source": "10.0.0.7",
        "action": "apply",
        "target": "Model/gpt-4o-mini",
        "revision": 12,
        "outcome": "ok",
        "detail": "",
    }
    add(
        app,
        Operation(
            "GET",
            "/api/v1/audit",
            "audit",
            "List the audit",
            Need(Role.VIEWER, "audit:read"),
            {200: Answer("Who did or tried what, newest first.", schema_ref("AuditList"), {"items": [row]})},
            "`before` is the lowest id of the page before.",
        ),
        routes.audit,
    )
