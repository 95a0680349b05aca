"""Errors as problem details: one shape for all of them (https://www.rfc-editor.org/rfc/rfc9457).

Nothing of a request's body and nothing of our inside is quoted; a bug is a 500 that says where to look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Final

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match, Route

from control_plane.api.errors import RefusedRequestError
from control_plane.registry.errors import (
    InUseError,
    NotFoundError,
    OwnedError,
    PreconditionError,
    RegistryError,
    ReleaseConflictError,
    StorageFullError,
    StoreUnavailableError,
)
from control_plane.resources.problems import InvalidDocumentsError, Problem

MEDIA_TYPE: Final = "application/problem+json"
DATABASE_RETRY_S: Final = 2
MAX_ERRORS: Final = 100
NOTHING_HERE: Final = "there is nothing at this path; the API is described at /docs"


def problem(
    status: int,
    detail: str,
    errors: Iterable[Problem] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return an error's answer. Of very many errors the first hundred are told."""
    found = list(errors)
    if len(found) > MAX_ERRORS:
        detail = f"{detail} (the first {MAX_ERRORS} of {len(found)} errors are listed)"
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "errors": [item.as_dict() for item in found[:MAX_ERRORS]],
    }
    return Response(orjson.dumps(body), status, dict(headers or {}), MEDIA_TYPE)


def invalid_documents(refused: InvalidDocumentsError, status: int) -> Response:
    """Return the answer to documents that cannot be read (400) or are refused (422)."""
    count = len(refused.problems)
    found = "is 1 error" if count == 1 else f"are {count} errors"
    return problem(
        status, f"nothing was changed: there {found} in what was sent; each is in `errors`", refused.problems
    )


def add_problem_handlers(app: FastAPI) -> None:
    """Make `app` answer every exception as a problem."""
    app.add_exception_handler(RefusedRequestError, _refused)
    app.add_exception_handler(InvalidDocumentsError, _invalid)
    app.add_exception_handler(NotFoundError, _not_found)
    app.add_exception_handler(PreconditionError, _precondition)
    app.add_exception_handler(InUseError, _in_use)
    app.add_exception_handler(OwnedError, _in_use)
    app.add_exception_handler(ReleaseConflictError, _conflict)
    app.add_exception_handler(StoreUnavailableError, _unavailable)
    app.add_exception_handler(StorageFullError, _full)
    app.add_exception_handler(RegistryError, _unusable)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(RequestValidationError, _wrong_parameters)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _bug)


def store_unavailable(error: StoreUnavailableError) -> Response:
    """Return the answer while the database is gone."""
    return problem(503, str(error), headers={"retry-after": str(DATABASE_RETRY_S)})


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedRequestError)
    return problem(error.status, error.detail, error.errors, error.headers)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, InvalidDocumentsError)
    return invalid_documents(error, 422)


async def _not_found(request: Request, error: Exception) -> Response:
    return problem(404, printable(str(error)))


async def _precondition(request: Request, error: Exception) -> Response:
    assert isinstance(error, PreconditionError)
    headers = {"etag": error.current} if error.current else {}
    return problem(412, printable(str(error)), headers=headers)


async def _in_use(request: Request, error: Exception) -> Response:
    assert isinstance(error, InUseError | OwnedError)
    return problem(409, printable(str(error)), error.problems)


async def _conflict(request: Request, error: Exception) -> Response:
    return problem(409, printable(str(error)))


async def _unavailable(request: Request, error: Exception) -> Response:
    assert isinstance(error, StoreUnavailableError)
    return store_unavailable(error)


async def _full(request: Request, error: Exception) -> Response:
    return problem(507, str(error))


async def _unusable(request: Request, error: Exception) -> Response:
    # What is left: the database or the encryption key needs the operator, as the text says.
    return problem(503, str(error))


async def _gone(request: Request, error: Exception) -> Response:
    # Nobody reads it.
    return problem(400, "the connection ended before the body did")


async def _wrong_parameters(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = [
        Problem("", str(item["loc"][-1]), _sentence(str(item["msg"])))
        for item in error.errors()
        if item["loc"]
    ]
    return problem(422, "a parameter of the request cannot be used; it is named in `errors`", errors)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return problem(404, NOTHING_HERE)
    if error.status_code == 405:
        allowed = _allowed(request)
        return problem(
            405, f"this path takes {allowed}, not {printable(request.method)}", headers={"allow": allowed}
        )
    return problem(error.status_code, HTTPStatus(error.status_code).phrase, headers=error.headers)


async def _bug(request: Request, error: Exception) -> Response:
    # The exception goes on to the server's log; nothing of it is shown.
    return problem(500, "the request could not be served; see the control plane's log")


def _allowed(request: Request) -> str:
    """Return every method that some route at this path takes."""
    methods: set[str] = set()
    for route in request.app.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            methods |= route.methods or set()
    if "GET" in methods:
        methods.add("HEAD")
    return ", ".join(sorted(methods))


def _sentence(message: str) -> str:
    text = message.replace("Input should", "must", 1)
    return text[:1].lower() + text[1:]


def printable(text: str, limit: int = 400) -> str:
    """Return `text` cut to `limit` characters, control characters escaped."""
    cut = text if len(text) <= limit else f"{text[:limit]}…"
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in cut)
