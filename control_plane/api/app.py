"""The FastAPI application: its routes and the shape of its errors."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from control_plane.api.ports import Fleet
from control_plane.api.readiness import readiness

PROBLEM = "application/problem+json"


def create_app(fleet: Fleet, *, version: str, min_ready_sidecars: int) -> FastAPI:
    """Return the API over `fleet`. It is ready once `min_ready_sidecars` follow the policy."""
    app = FastAPI(title="Outrigger", version=version, redoc_url=None)
    app.add_exception_handler(HTTPException, _http_problem)
    app.add_exception_handler(RequestValidationError, _invalid_problem)
    app.add_exception_handler(Exception, _internal_problem)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Say that the process answers."""
        return {"status": "ok"}

    @app.get("/readyz")
    async def readyz() -> JSONResponse:
        """Say whether the sidecars serve the current policy, and if not, why."""
        found = readiness(fleet.sidecars(), min_ready_sidecars)
        if found.ready:
            return JSONResponse({"status": "ready", "sidecars": found.sidecars})
        return JSONResponse(
            {"status": "not ready", "sidecars": found.sidecars, "reason": found.reason}, status_code=503
        )

    return app


def problem(status: int, detail: str) -> JSONResponse:
    """Return an error as problem details (https://www.rfc-editor.org/rfc/rfc9457)."""
    body = {"title": HTTPStatus(status).phrase, "status": status, "detail": detail, "errors": []}
    return JSONResponse(body, status_code=status, media_type=PROBLEM)


async def _http_problem(request: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 404:
        return problem(status, "there is nothing at this path; the API is described at /docs")
    detail = str(error.detail) if isinstance(error, HTTPException) else HTTPStatus(status).phrase
    answer = problem(status, detail)
    if isinstance(error, HTTPException) and error.headers:
        answer.headers.update(error.headers)
    return answer


async def _invalid_problem(request: Request, error: Exception) -> JSONResponse:
    return problem(422, "the request does not have the form that /docs describes")


async def _internal_problem(request: Request, error: Exception) -> JSONResponse:
    # The exception goes on to the server's log; nothing of it is shown.
    return problem(500, "the request could not be served; see the control plane's log")
