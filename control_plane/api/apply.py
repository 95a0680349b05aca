"""Many documents at once, all or nothing; or only what would become of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from starlette.responses import Response

from control_plane.api.bodies import Bodies
from control_plane.api.caller import actor_of
from control_plane.api.examples import EXAMPLES, example_yaml
from control_plane.api.guard import demand
from control_plane.api.operations import (
    CHANGING,
    JSON,
    READING_A_BODY,
    YAML,
    Answer,
    Body,
    Operation,
    add,
    schema_ref,
)
from control_plane.api.ports import DocumentBook
from control_plane.api.wire import to_json
from control_plane.auth.roles import Need, Role
from control_plane.registry.values import Applied, DocumentChange
from control_plane.resources.loading import RawDocument
from control_plane.resources.plurals import KIND_OF, PLURAL_OF

DryRun = Annotated[bool, Query(alias="dryRun", description="Only say what would change.")]


@dataclass(frozen=True, slots=True)
class ApplyRoute:
    """`POST /api/v1/apply`."""

    book: DocumentBook
    bodies: Bodies

    async def apply(self, request: Request, dry_run: DryRun = False) -> Response:
        """Create or replace every document of the body, or none."""
        documents = await self.bodies.documents(request)
        for kind in sorted(_kinds(documents)):
            await demand(request, Need(Role.EDITOR, f"{PLURAL_OF[kind]}:write"))
        applied = await self.book.apply(documents, actor_of(request), dry_run=dry_run)
        return Response(to_json(applied_wire(applied, dry_run=dry_run)), media_type=JSON)


def applied_wire(applied: Applied, *, dry_run: bool) -> dict[str, Any]:
    """Return what a change of documents answers."""
    return {
        "revision": applied.revision,
        "dryRun": dry_run,
        "changes": changes_wire(applied.changes),
        "warnings": [warning.as_dict() for warning in applied.warnings],
    }


def changes_wire(changes: Iterable[DocumentChange]) -> list[dict[str, Any]]:
    """Return what became of each document, field by field."""
    return [
        {"document": change.document, "action": change.action.value, "fields": change.fields}
        for change in changes
    ]


def _kinds(documents: Iterable[RawDocument]) -> set[str]:
    """Return the known kinds among `documents`; what is no document is refused later, with its place."""
    values = [document.value for document in documents]
    kinds = [value.get("kind") for value in values if isinstance(value, Mapping)]
    return {kind for kind in kinds if isinstance(kind, str) and kind in PLURAL_OF}


def add_apply_route(app: FastAPI, book: DocumentBook, bodies: Bodies) -> None:
    """Serve `POST /api/v1/apply`."""
    schema = {
        "type": "array",
        "minItems": 1,
        "items": {"oneOf": [schema_ref(kind) for kind in KIND_OF.values()]},
    }
    operation = Operation(
        "POST",
        "/api/v1/apply",
        "apply",
        "Apply documents",
        Need(Role.EDITOR),
        {200: Answer("What became, or would become, of each document.", schema_ref("Applied"), _APPLIED)},
        "YAML (many documents, separated by `---`) or a JSON list, in any order. They are checked together "
        "with every document that is stored and are in force all or not at all. Documents that are not named "
        "stay. When nothing changes there is no new revision.",
        Body(schema, {YAML: example_yaml(*_SHOWN), JSON: [EXAMPLES[kind] for kind in _SHOWN]}),
        (*READING_A_BODY, *CHANGING, 409),
    )
    add(app, operation, ApplyRoute(book, bodies).apply)


_SHOWN = ("Backend", "Model")
_APPLIED: dict[str, Any] = {
    "revision": 12,
    "dryRun": False,
    "changes": [
        {"document": "Backend/openai", "action": "unchanged", "fields": []},
        {
            "document": "Model/gpt-4o-mini",
            "action": "update",
            "fields": [{"field": "spec.versions[1].weight", "before": 5, "after": 25}],
        },
    ],
    "warnings": [],
}
