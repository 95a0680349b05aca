"""Documents of one kind: listed, read, put, deleted; answered as they were written, byte for byte."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import FastAPI, Path, Query, Request
from starlette.responses import Response

from control_plane.api.bodies import Bodies
from control_plane.api.caller import actor_of
from control_plane.api.conditions import WriteConditions, not_modified, write_conditions
from control_plane.api.errors import RefusedRequestError
from control_plane.api.examples import EXAMPLES, example_yaml
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
from control_plane.registry.errors import NotFoundError
from control_plane.registry.values import StoredDocument
from control_plane.resources.plurals import KIND_OF
from control_plane.resources.problems import Problem

MAX_PAGE: Final = 5_000
_MAX_WARNINGS: Final = 1_000

OWNER: Final = "x-outrigger-owner"
_ETAG: Final = {"ETag": "This version, for `If-Match`."}
_FOUND: Final = {**_ETAG, "X-Outrigger-Owner": "Where it is mirrored from; it cannot be changed here."}
_IF_NONE_MATCH: Final = {"If-None-Match": "Tags that the caller has: 304 when one of them is current."}
_MATCHING: Final = {
    "If-Match": "The tag that the document must still have (`*`: it must exist).",
    "If-None-Match": "`*`: the document must not exist.",
}

Name = Annotated[str, Path(description="The document's name.", max_length=1_000)]
Limit = Annotated[int | None, Query(ge=1, le=MAX_PAGE, description="How many to answer; all without it.")]
After = Annotated[str | None, Query(description="The `next` of the page before.", max_length=1_000)]


StatusOf = Callable[[str], Awaitable[bytes]]
"""Returns how the document of that name is getting on, as JSON."""


@dataclass(frozen=True, slots=True)
class DocumentRoutes:
    """The four operations on one kind."""

    book: DocumentBook
    bodies: Bodies
    kind: str
    status: StatusOf | None = None

    async def show_all(self, request: Request, limit: Limit = None, after: After = None) -> Response:
        """Answer the documents of this kind, by name."""
        head = self.book.head
        etag = f'"r{head.revision}"'
        if not_modified(request.headers.get("if-none-match"), etag):
            return Response(status_code=304, headers={"etag": etag})
        found = [item for (kind, _), item in head.stored.items() if kind == self.kind]
        if after is not None:
            found = [item for item in found if item.name > after]
        page = found if limit is None else found[:limit]
        more = b""
        if len(page) < len(found):
            more = b',"next":' + to_json(page[-1].name)
        body = b'{"items":[' + b",".join([item.content for item in page]) + b"]" + more + b"}"
        return Response(body, 200, {"etag": etag}, JSON)

    async def show(self, request: Request, name: Name) -> Response:
        """Answer one document."""
        stored = self._find(name)
        if stored is None:
            raise NotFoundError(f"{self.kind}/{name}")
        if self.status is not None:
            # Its tag is the document's alone: what comes with it is always news.
            return document_response(stored, await self.status(name))
        if not_modified(request.headers.get("if-none-match"), stored.etag):
            return Response(status_code=304, headers={"etag": stored.etag})
        return Response(stored.content, 200, _headers(stored), JSON)

    async def put(self, request: Request, name: Name) -> Response:
        """Create or replace one document."""
        conditions = _conditions(request)
        documents = await self.bodies.documents(request)
        if len(documents) != 1:
            raise RefusedRequestError(
                400, f"the body holds {len(documents)} documents; PUT takes one, /api/v1/apply takes many"
            )
        put = await self.book.put(
            self.kind,
            name,
            documents[0],
            actor_of(request),
            if_match=conditions.if_match,
            if_none_match=conditions.if_none_match,
        )
        headers = {"etag": put.stored.etag}
        if put.created:
            headers["location"] = quote(request.scope["path"], safe="/:@")
        if put.warnings:
            headers["x-outrigger-warnings"] = _warnings(put.warnings)
        return Response(put.stored.content, 201 if put.created else 200, headers, JSON)

    async def delete(self, request: Request, name: Name) -> Response:
        """Delete one document that no other names."""
        conditions = _conditions(request)
        if conditions.if_none_match:
            raise RefusedRequestError(400, "If-None-Match has no meaning when something is deleted")
        await self.book.delete(self.kind, name, actor_of(request), if_match=conditions.if_match)
        return Response(status_code=204)

    def _find(self, name: str) -> StoredDocument | None:
        return self.book.head.stored.get((self.kind, name))


def document_response(stored: StoredDocument, status: bytes) -> Response:
    """Return a document with its `status`, which is JSON."""
    content = stored.content.rstrip()[:-1] + b',"status":' + status + b"}"
    return Response(content, 200, _headers(stored), JSON)


def _headers(stored: StoredDocument) -> dict[str, str]:
    return {"etag": stored.etag, **({OWNER: stored.owner} if stored.owner else {})}


def _conditions(request: Request) -> WriteConditions:
    found = write_conditions(_joined(request, "if-match"), _joined(request, "if-none-match"))
    if isinstance(found, str):
        raise RefusedRequestError(400, found)
    return found


def _joined(request: Request, header: str) -> str | None:
    found = request.headers.getlist(header)
    # An empty one is a condition that was lost on its way, not none.
    return ", ".join(found) if found else None


def _warnings(warnings: tuple[Problem, ...]) -> str:
    text = "; ".join(f"{item.field} {item.message}" for item in warnings)
    return text.encode("ascii", "replace").decode()[:_MAX_WARNINGS]


def add_document_routes(
    app: FastAPI, book: DocumentBook, bodies: Bodies, statuses: Mapping[str, StatusOf] = MappingProxyType({})
) -> None:
    """Serve the documents of every kind; those of the kinds in `statuses` are read with their `status`."""
    for plural, kind in KIND_OF.items():
        _add_kind(app, plural, kind, DocumentRoutes(book, bodies, kind, statuses.get(kind)))


def _add_kind(app: FastAPI, plural: str, kind: str, routes: DocumentRoutes) -> None:
    # Models may be named like the provider's (`meta-llama/Llama-3.1-8B`).
    name = "{name:path}" if kind == "Model" else "{name}"
    path, one = f"/api/v1/{plural}", f"/api/v1/{plural}/{name}"
    reading = Need(Role.VIEWER, f"{plural}:read")
    writing = Need(Role.EDITOR, f"{plural}:write")
    document, example = schema_ref(kind), EXAMPLES[kind]
    page = Answer(
        f"{plural.capitalize()} by name; `next` when there are more.",
        schema_ref(f"{kind}List"),
        {"items": [example]},
        headers={"ETag": "The revision."},
    )
    found = Answer(f"The {kind} as it was written.", document, example, headers=_FOUND)
    made = Answer(f"The {kind} is new.", document, example, headers=_ETAG)
    unchanged = {304: Answer("Nothing has changed.")}
    body = Body(document, {JSON: example, YAML: example_yaml(kind)})
    add(
        app,
        Operation(
            "GET", path, plural, f"List {plural}", reading, {200: page, **unchanged}, headers=_IF_NONE_MATCH
        ),
        routes.show_all,
    )
    add(
        app,
        Operation(
            "GET",
            one,
            plural,
            f"Read a {kind}",
            reading,
            {200: found, **unchanged},
            problems=(404,),
            headers=_IF_NONE_MATCH,
        ),
        routes.show,
    )
    add(
        app,
        Operation(
            "PUT",
            one,
            plural,
            f"Create or replace a {kind}",
            writing,
            {200: found, 201: made},
            "The whole document, of which `kind` and `metadata.name` are the path's. It is checked together "
            "with every other document. What is accepted without effect yet is named in "
            "`x-outrigger-warnings`.",
            body,
            (*READING_A_BODY, *CHANGING, 409, 412),
            _MATCHING,
        ),
        routes.put,
    )
    add(
        app,
        Operation(
            "DELETE",
            one,
            plural,
            f"Delete a {kind}",
            writing,
            {204: Answer("It is gone.")},
            "Refused (409) while another document names it, or when it is mirrored.",
            problems=(400, 404, 409, 412, *CHANGING),
            headers={"If-Match": _MATCHING["If-Match"]},
        ),
        routes.delete,
    )
