"""How a route is declared: what it does, what it needs, what it takes and every answer it may give.

One declaration feeds three: FastAPI's routing, the guard in front of the handler, and the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi import FastAPI
from starlette.responses import Response

from control_plane.api.guard import needs
from control_plane.api.problems import MEDIA_TYPE
from control_plane.auth.roles import Need

JSON: Final = "application/json"
YAML: Final = "application/yaml"

# Every operation behind the door may answer these.
_ALWAYS: Final = (401, 403, 422, 429, 503)
_PROBLEMS: Final = {
    400: "The body cannot be read.",
    401: "No valid token.",
    403: "The token's role or scopes are too small.",
    404: "It does not exist, or is no name.",
    409: "It is in use, or mirrored from elsewhere; `errors` names by whom.",
    412: "The document is not in the state that `If-Match` or `If-None-Match` asks for.",
    413: "The body is too large.",
    415: "The body is of another type.",
    422: "A parameter, a field or a reference is wrong; `errors` names each.",
    429: "Too many wrong tokens came from this address.",
    503: "The database does not answer; nothing was changed.",
    507: "The database's disk is full; nothing was changed.",
}
# What any change may answer besides.
CHANGING: Final = (507,)
READING_A_BODY: Final = (400, 413, 415)


def schema_ref(name: str) -> dict[str, Any]:
    """Return a reference to a schema of the OpenAPI document's components."""
    return {"$ref": f"#/components/schemas/{name}"}


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer that is no problem. `schema` None: it has no body."""

    description: str
    schema: Mapping[str, Any] | None = None
    example: Any = None
    media_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Body:
    """What a request carries: the schema, and an example for each media type."""

    schema: Mapping[str, Any]
    examples: Mapping[str, Any]
    required: bool = True


@dataclass(frozen=True, slots=True)
class Operation:
    """One method at one path."""

    method: str
    path: str
    tag: str
    summary: str
    need: Need
    answers: Mapping[int, Answer]
    description: str = ""
    body: Body | None = None
    problems: Sequence[int] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    """Request headers that mean something, with what they mean."""


def add(app: FastAPI, operation: Operation, handler: Callable[..., Any]) -> None:
    """Serve `operation` by `handler`."""
    extra: dict[str, Any] = {**needs(operation.need)}
    if operation.body is not None:
        extra["requestBody"] = _request_body(operation.body)
    if operation.headers:
        extra["parameters"] = [
            {"in": "header", "name": name, "schema": {"type": "string"}, "description": text}
            for name, text in operation.headers.items()
        ]
    first = next(iter(operation.answers))
    app.router.add_api_route(
        operation.path,
        handler,
        methods=[operation.method],
        tags=[operation.tag],
        summary=operation.summary,
        description=operation.description or operation.summary,
        operation_id=_operation_id(operation),
        status_code=first,
        response_class=Response,
        responses=_responses(operation),
        openapi_extra=extra,
    )


def _operation_id(operation: Operation) -> str:
    words = "".join(char if char.isalnum() else " " for char in operation.summary).split()
    return "".join(word.capitalize() if position else word.lower() for position, word in enumerate(words))


def _request_body(body: Body) -> dict[str, Any]:
    content = {
        media_type: {"schema": dict(body.schema), "example": example}
        for media_type, example in body.examples.items()
    }
    return {"required": body.required, "content": content}


def _responses(operation: Operation) -> dict[int | str, dict[str, Any]]:
    found: dict[int | str, dict[str, Any]] = {}
    for status, answer in operation.answers.items():
        found[status] = {"description": answer.description}
        if answer.schema is not None:
            media: dict[str, Any] = {"schema": dict(answer.schema)}
            if answer.example is not None:
                media["example"] = answer.example
            found[status]["content"] = {answer.media_type: media}
        if answer.headers:
            found[status]["headers"] = {
                name: {"description": text, "schema": {"type": "string"}}
                for name, text in answer.headers.items()
            }
    missing = (404,) if "{" in operation.path else ()
    for status in sorted({*_ALWAYS, *missing, *operation.problems}):
        found[status] = {
            "description": _PROBLEMS[status],
            "content": {MEDIA_TYPE: {"schema": schema_ref("Problem")}},
        }
    return found
