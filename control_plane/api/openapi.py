"""The OpenAPI document: what FastAPI knows of the routes, with our schemas and ways to log in."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from control_plane.api.door import CSRF_HEADER, OPEN_PATHS
from control_plane.api.guard import NEED_KEY
from control_plane.api.schemas import component_schemas
from control_plane.api.session_cookie import COOKIE

DESCRIPTION: Final = f"""\
Policy of an Outrigger mesh: documents, keys, history, sidecars.

Everything but `/healthz` and `/readyz` needs a token: `Authorization: Bearer ort_…`. A browser that is logged
in has a session cookie instead, and repeats its session's token in `{CSRF_HEADER}` with every change.
Errors are problem details (RFC 9457). Each operation names the role and the scope that it needs.
"""
_SECURITY: Final = {
    "token": {"type": "http", "scheme": "bearer", "description": "An API token."},
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "A logged-in browser."},
}


def describer(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """Return what makes the OpenAPI document of `app`, once, when it is first asked for."""

    @cache
    def describe() -> dict[str, Any]:
        found = get_openapi(title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes)
        found["components"] = {"schemas": component_schemas(), "securitySchemes": _SECURITY}
        for path, methods in found["paths"].items():
            for operation in methods.values():
                _finish(operation, is_open=path in OPEN_PATHS)
        return found

    return describe


def _finish(operation: dict[str, Any], *, is_open: bool) -> None:
    need = operation.pop(NEED_KEY)
    if is_open:
        operation["security"] = []
        for status in ("401", "403", "422", "429"):
            operation["responses"].pop(status, None)
        return
    operation["security"] = [{"token": []}, {"session": []}]
    operation[NEED_KEY] = need
    scope = f", scope `{need['scope']}`" if "scope" in need else ""
    operation["description"] += f"\n\nNeeds: role `{need['role']}`{scope}."
